"""POST /contracts and GET /contracts/{id} without a table: bodies, ids in refusals, states."""

from types import SimpleNamespace

import pytest

from piecework.worker.contract.choosing import Offer
from piecework.worker.contract.registration import Registration
from piecework.worker.errors import ContractInvalid, WorkerError
from piecework.worker.record.states import State
from tests.support.fakes import FakeClock
from tests.support.worker.contracts import EXAMPLE, EXAMPLE_NOW_MS, IDENTITY, SECRET, a_contract
from tests.support.worker.fakes import FakeContracts

OFFER = Offer(("echo", "completion"), default="echo")


def a_registration(state: State | None = None, task_id: str = "task_a") -> Registration:
    clock = FakeClock(EXAMPLE_NOW_MS)
    execution = SimpleNamespace(state=state, task_id=task_id) if state else None
    contracts, url = FakeContracts(clock), "https://w.example/hire"
    return Registration(contracts, IDENTITY, OFFER, url, clock, lambda contract_id: execution)


def test_the_answer_says_where_to_send_the_work():
    kept, body = a_registration().register({"contract": EXAMPLE, "webhook_secret": SECRET})

    assert kept == "new"
    assert body == {
        "contract_id": "ctr_demo01",
        "hash": EXAMPLE["hash"],
        "state": "SIGNED",
        "execute_url": "https://w.example/hire/execute",
        "expires_at": "2026-02-05T09:00:00Z",
    }


@pytest.mark.parametrize("body", [None, [], {}, {"webhook_secret": "x"}, {"contract": {}, "source": "import"}])
def test_a_body_with_other_members_is_refused(body):
    with pytest.raises(WorkerError) as refused:
        a_registration().register(body)

    assert refused.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("secret", [5, ["whsec_"], True])
def test_a_secret_is_a_string(secret):
    with pytest.raises(ContractInvalid) as refused:
        a_registration().register({"contract": EXAMPLE, "webhook_secret": secret})

    assert refused.value.rule == "V13"


@pytest.mark.parametrize(("contract_id", "shown"), [("ctr_a", "ctr_a"), ("../x", None), (5, None)])
def test_a_refusal_shows_the_id_only_when_it_is_one(contract_id, shown):
    with pytest.raises(ContractInvalid) as refused:
        a_registration().register({"contract": {"contract_id": contract_id}})

    assert refused.value.contract_id == shown


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "SIGNED"),
        (State.EXECUTING, "EXECUTING"),
        (State.UNKNOWN, "EXECUTING"),
        (State.COMPLETED, "COMPLETED"),
        (State.PARTIAL_FINAL, "COMPLETED"),
        (State.TIMED_OUT, "EXECUTING"),
    ],
)
def test_the_state_follows_the_execution(state, told):
    registration, document = a_registration(state), a_contract()
    registration.register({"contract": document})

    shown = registration.show(document["contract_id"])

    assert shown == {"contract_id": document["contract_id"], "hash": document["hash"], "state": told}


def test_a_contract_that_was_forgotten_before_anybody_paid_is_still_only_signed():
    registration, document = a_registration(State.TIMED_OUT, task_id=""), a_contract()
    registration.register({"contract": document})

    assert registration.show(document["contract_id"])["state"] == "SIGNED"


def test_an_unknown_contract_is_not_found():
    with pytest.raises(WorkerError) as refused:
        a_registration().show("ctr_unknown")

    assert (refused.value.code, refused.value.status) == ("CONTRACT_NOT_FOUND", 404)
