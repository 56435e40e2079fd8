"""What an operator does: pauses, webhooks resent, payments and refunds, dead letters put back, payloads forgotten."""

from typing import Any

from piecework.edge.ports import LambdaContext
from piecework.ops.door import serve
from piecework.ops.money.wiring import OpsMoneyDoor

door = OpsMoneyDoor().ready("access", "telemetry")

ANSWERS = {
    "/ops/pieces/{key}/forget": door.forget_piece,
    "/ops/tasks/{contract_id}/forget": door.forget_task,
    "/ops/tasks/{contract_id}/webhooks/{event_id}/resend": door.resend,
    "/ops/tasks/{contract_id}/payment/evidence": door.payment_evidence,
    "/ops/tasks/{contract_id}/payment/resolve": door.resolve_payment,
    "/ops/tasks/{contract_id}/payment/refunded": door.refunded,
    "/ops/tasks/{contract_id}/payment/refunded/evidence": door.refund_evidence,
    "/ops/approvals/{execution_id}/webhooks/{event_id}/resend": door.resend_notice,
    "/ops/dead-letters/{name}/look": door.look,
    "/ops/dead-letters/{name}/redrive": door.redrive,
    "/ops/pause": door.pause,
    "/ops/resume": door.resume,
}


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("ops_writing", ANSWERS, event, context, door.access, door.telemetry)
