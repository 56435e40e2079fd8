"""A payment that a worker over the embedded AWS's own tables could not tell anything about."""

import time

from local.facilitator.server import StubFacilitator
from piecework.aws.due_table import DueTable
from piecework.aws.transport.dynamodb import DynamoDB
from piecework.jsons import Json
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.fakes import FakeClock
from tests.support.worker.stage import BODY, Ports, Stage

EARLIER_MS = 3 * 3_600_000  # the worker's clock begins so long ago: what is unresolved took its time
TABLES = ("piecework-contracts", "piecework-work", "piecework-due")
HOOKED: dict[str, Json] = {"callbacks": {"webhook_url": "https://seeker.invalid/hook"}}


def doubtful(
    client: DynamoDB, facilitator: StubFacilitator, word: str = "lost-cut", tables: tuple[str, ...] = TABLES
) -> str:
    """The id of a contract whose settlement ended so and is unresolved by now; the node answers again."""
    contracts, work, due = tables
    clock = FakeClock(int(time.time() * 1000) - EARLIER_MS)
    executions = ExecutionsTable(client, work, due, clock)
    ports: Ports = {
        "contracts": ContractsTable(client, contracts, clock),
        "executions": executions,
        "due_times": DueTable(client, due),
    }
    stage = Stage(facilitator, clock=clock, ports=ports)
    facilitator.say("settle", word)
    facilitator.say("rpc", "500")
    contract = stage.contract(**HOOKED)
    stage.post(contract, BODY, stage.pay(contract))
    stage.clock.move(stage.terms(contract).max_timeout_seconds + 2_400)
    stage.sweep()
    facilitator.say("rpc", "ok")
    facilitator.ledger.clock = time.time
    assert stage.standing(contract).settlement.status == "unresolved"
    return contract.contract_id
