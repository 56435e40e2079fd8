"""Everything under /ops that only reads; also answers every path and method that the door does not serve."""

from typing import Any

from piecework.edge.ports import LambdaContext
from piecework.ops.door import serve
from piecework.ops.wiring import OpsDoor

door = OpsDoor().ready("access", "telemetry")

ANSWERS = {
    "/ops/health": door.health,
    "/ops/whoami": door.whoami,
    "/ops/sign-in": door.sign_in,
    "/ops/status": door.status,
    "/ops/pieces": door.pieces,
    "/ops/pieces/{key}": door.piece,
    "/ops/pieces/{key}/evidence/{digest}": door.evidence,
    "/ops/pieces/{key}/verdicts": door.piece_verdicts,
    "/ops/verdicts": door.verdicts,
    "/ops/piece": door.named_piece,
    "/ops/tasks": door.tasks,
    "/ops/tasks/{contract_id}": door.task,
    "/ops/contracts": door.contracts,
    "/ops/ledger": door.ledger,
    "/ops/records": door.records,
    "/ops/find": door.find,
    "/ops/pauses": door.pauses,
}


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("ops_reading", ANSWERS, event, context, door.access, door.telemetry)
