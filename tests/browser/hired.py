"""Hired work for browser tests: a paid task with webhooks, one of hostile texts, one that failed, payments in doubt."""

import time
from dataclasses import replace
from typing import Any

from local.facilitator.server import StubFacilitator
from piecework.aws.due_table import DueTable
from piecework.extend.executors import Outcome, Refused, Run, Task
from piecework.webhooks.deliveries import Delivery, DeliveryState, Made
from piecework.webhooks.store import work_deliveries
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.states import State
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.fakes import FakeClock
from tests.support.machine import Aws
from tests.support.ops.tasks import a_task
from tests.support.worker.doubtful import TABLES, doubtful
from tests.support.worker.records import moved
from tests.support.worker.stage import BODY, Ports, Stage

BASE = "eip155:8453"
EVENT = "evt_paid"
LARGE = 2**53 - 1  # the largest whole number of JavaScript


def seed_hired(emulated: Aws, facilitator: StubFacilitator, hostile: str) -> dict[str, str]:
    """Contracts in the deployed tables: `paid`, `erased`, `signed`, `hostile`, `failed`; no test decides `doubt`."""
    client, now_ms = emulated.client("dynamodb"), int(time.time() * 1000)
    stage = _stage(client, facilitator, now_ms)
    paid, erased, signed = stage.contract(), stage.contract(), stage.contract()
    for contract in (paid, erased):
        stage.post(contract, BODY, stage.pay(contract))
        assert stage.standing(contract).settlement.status == "settled"
    deliveries, tries = (
        work_deliveries(client, TABLES[1]),
        (Made(1, 500, now_ms - 60_000), Made(2, None, now_ms - 30_000)),
    )
    sent = Delivery(paid.contract_id, EVENT, "https://seeker.invalid/hook", b"{}")
    deliveries.put(sent)
    deliveries.note(sent, replace(sent, state=DeliveryState.GIVEN_UP, attempt=2, tries=tries))
    names = {
        "paid": paid.contract_id,
        "erased": erased.contract_id,
        "signed": signed.contract_id,
        "doubt": doubtful(client, facilitator),
    }
    names |= _written(ExecutionsTable(client, TABLES[1], TABLES[2]), now_ms, hostile)
    deliveries.put(Delivery(names["hostile"], hostile, f"https://{hostile}/hook", b"{}", state=DeliveryState.PENDING))
    facilitator.say("settle", "ok")
    return names


def in_doubt(emulated: Aws, facilitator: StubFacilitator, word: str = "lost-cut") -> str:
    """A contract of a test's own, whose payment an operator decides; `word` says how the settlement ended."""
    name = doubtful(emulated.client("dynamodb"), facilitator, word)
    facilitator.say("settle", "ok")
    return name


def owed_back(emulated: Aws, facilitator: StubFacilitator) -> str:
    """A contract of a test's own, whose work failed an hour ago, after it was paid."""

    def fail(task: Task, run: Run) -> Outcome:
        raise Refused("nobody can do this")

    stage = _stage(emulated.client("dynamodb"), facilitator, int(time.time() * 1000) - 3_600_000)
    stage.do = fail
    contract = stage.contract("upfront")
    facilitator.say("settle", "ok")
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(600)
    facilitator.ledger.clock = time.time
    assert stage.standing(contract).owes_refund
    return contract.contract_id


def _stage(client: Any, facilitator: StubFacilitator, now_ms: int) -> Stage:
    contracts, work, due = TABLES
    clock = FakeClock(now_ms)
    ports: Ports = {
        "contracts": ContractsTable(client, contracts, clock),
        "executions": ExecutionsTable(client, work, due, clock),
        "due_times": DueTable(client, due),
    }
    return Stage(facilitator, clock=clock, ports=ports)


def _written(executions: ExecutionsTable, now_ms: int, hostile: str) -> dict[str, str]:
    """Records whose texts a stranger may have chosen, and one that failed for good."""
    receipt = {"success": False, "errorReason": hostile, "transaction": hostile, "network": hostile, "payer": hostile}
    word = {"operator": hostile, "reason": hostile, "by": "override"}
    first = a_task(f"ctr_hostile{now_ms}", executor=hostile, created_at_ms=now_ms, due_ms=0, payer=hostile)
    executions.claim(None, first)
    charging = moved(
        first, State.SETTLING, payment_status="settling", hashes=(hostile,), receipt=receipt, settle_calls=1
    )
    executions.move(first, charging)
    refused = {"code": hostile, "message": hostile}
    ended = moved(charging, State.FAILED_PERMANENT, failure=refused, resolution=word, finished_at_ms=now_ms)
    executions.move(
        charging, ended, ledger=[_owed(first.contract_id, now_ms + more, hostile, LARGE - more) for more in (0, 1)]
    )
    begun = a_task(f"ctr_failed{now_ms}", created_at_ms=now_ms - 1_000, due_ms=0)
    executions.claim(None, begun)
    executions.move(begun, moved(begun, State.FAILED_TRANSIENT))
    return {"hostile": first.contract_id, "failed": begun.contract_id}


def _owed(contract_id: str, now_ms: int, hostile: str, atomic: int) -> LedgerRow:
    return LedgerRow(
        contract_id=contract_id, task_id="task_secret", generation=1, kind="refund_due", atomic=atomic,
        network=BASE, transaction=hostile, wallet=hostile, at_ms=now_ms,
    )  # fmt: skip
