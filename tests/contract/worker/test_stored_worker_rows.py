"""Rows of the worker door as the code of 7a1e751 wrote them are read, and go on without harm."""

import base64
import copy
import json
from pathlib import Path

import pytest

from local.facilitator.ledger import Transfer
from piecework.aws.attributes import plain, typed
from piecework.jsons import loads
from piecework.webhooks import store as deliveries_table
from piecework.worker.record.executions import LedgerRow
from piecework.worker.record.states import State
from piecework.worker.store import contracts_table, executions_table
from tests.support.worker.stage import BODY, Stage, score, stub_facilitator

STORED = json.loads((Path(__file__).parents[2] / "support" / "stored" / "worker_7a1e751.json").read_text())
STATES = {
    "completed": State.COMPLETED,
    "executing": State.EXECUTING,
    "unknown without a hash": State.UNKNOWN,
    "unknown with a hash": State.UNKNOWN,
    "unknown and charged": State.UNKNOWN,
    "unresolved": State.UNKNOWN,
    "unpaid": State.UNPAID,
    "ended by refused payments": State.FAILED_PERMANENT,
    "failed for now": State.FAILED_TRANSIENT,
    "failed for now after its payment": State.FAILED_TRANSIENT,
    "failed after its payment": State.FAILED_PERMANENT,
}


@pytest.fixture
def stub():
    with stub_facilitator() as running:
        yield running


@pytest.fixture
def stage(stub):
    return Stage(stub)


def standing(stage, name):
    """The stored record and its contract, put before a worker of today."""
    execution = executions_table.from_item(plain(STORED["executions"][name]))
    contract = contracts_table.from_item(plain(STORED["contracts"][name]))
    stage.contracts.put(contract)
    stage.executions.items[execution.contract_id] = execution
    stage.executions.claims[execution.payment.claim_key] = execution.payment.claim_status
    if execution.due:
        stage.due.put(execution.due)
        stage.clock.now_ms = min(execution.due_ms, execution.created_at_ms + 60_000)
    return contract, execution


def charged(stage, contract, execution):
    """What the chain holds of a payment whose answer was lost."""
    signed = loads(execution.payment.document)["payload"]["authorization"]
    asset, to = contract.network.usdc.lower(), signed["to"].lower()
    transfer = Transfer(asset, signed["from"].lower(), to, int(signed["value"]), signed["nonce"].lower())
    now, stage.clock.now_ms = stage.clock.now_ms, execution.created_at_ms
    stage.stub.ledger.charge(transfer)
    stage.clock.now_ms = now


@pytest.mark.parametrize("name", STORED["executions"])
def test_a_record_is_read_and_written_again_without_loss(name):
    item = STORED["executions"][name]
    execution = executions_table.from_item(plain(item))

    again = typed(executions_table.to_item(execution, item["write"]["S"]))

    assert execution.state is STATES[name]
    before, after = loads(item["record"]["S"]), loads(again.pop("record")["S"])
    assert {member: after[member] for member in before} == before
    assert {member: value for member, value in item.items() if member not in ("record", "expires_at")} == {
        member: value for member, value in again.items() if member != "expires_at"
    }
    assert int(again["expires_at"]["N"]) >= int(item["expires_at"]["N"])


def test_a_record_of_a_newer_version_is_read():
    item = copy.deepcopy(STORED["executions"]["completed"])
    item["record"]["S"] = json.dumps(json.loads(item["record"]["S"]) | {"a_member_of_tomorrow": {"x": 1}})

    assert executions_table.from_item(plain(item)).state is State.COMPLETED


@pytest.mark.parametrize("name", STORED["contracts"])
def test_a_contract_is_read_and_written_again_as_it_was(name):
    item = STORED["contracts"][name]

    assert typed(contracts_table.to_item(contracts_table.from_item(plain(item)))) == item


@pytest.mark.parametrize("name", STORED["deliveries"])
def test_a_delivery_is_read_and_written_again_as_it_was(name):
    item = copy.deepcopy(STORED["deliveries"][name])
    item["body"]["B"] = base64.b64decode(item["body"]["B"])

    again = deliveries_table.to_item(deliveries_table.from_item(plain(item)), int(item["expires_at"]["N"]))

    assert typed(again) == item


@pytest.mark.parametrize("name", STORED["ledger"])
def test_a_ledger_row_is_read(name):
    assert LedgerRow(**loads(STORED["ledger"][name]["row"]["S"])).atomic > 0


@pytest.mark.parametrize("node", ["ok", "pool:300", "behind:150"])
def test_a_payment_whose_answer_was_lost_before_is_charged_once(stage, node):
    contract, execution = standing(stage, "unknown and charged")
    charged(stage, contract, execution)
    stage.stub.say("rpc", node)

    for _ in range(12):
        stage.settle_down(60)
        answer = stage.post(contract)
        if answer.status == 402:
            answer = stage.post(contract, BODY, stage.pay(contract))

    assert stage.charges() == 1 and answer.status == 200 and answer.receipt["success"] is True


def test_a_settlement_that_was_never_charged_is_sent_again_and_delivered(stage):
    contract, _ = standing(stage, "unknown without a hash")

    stage.settle_down(300)

    assert stage.post(contract).status == 200 and stage.charges() == 1


def test_work_that_was_paid_before_keeps_the_one_fee_row_that_it_has(stage):
    contract, _ = standing(stage, "failed for now after its payment")
    stage.do = score

    stage.post(contract)
    stage.settle_down(60)

    assert stage.state(contract) is State.COMPLETED and stage.executions.rows == []


def test_what_ended_before_is_answered_as_ends_are_now(stage):
    contract, _ = standing(stage, "ended by refused payments")
    assert stage.post(contract).status == 409

    contract, execution = standing(stage, "failed after its payment")
    told = stage.get(contract, execution.task_id).body
    assert told["payment"]["refund_due"] == "5000000" and "owed back" in told["error"]["message"]
