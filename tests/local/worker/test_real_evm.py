"""Our clients and decisions against the stock facilitator's own logic on a real EVM: what money really does."""

import secrets
import time

import pytest

from piecework.worker.chain.exchange import Interrupted
from piecework.worker.chain.rpc import RpcChain
from piecework.worker.payment.evidence import gather
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.payment.payments import read_payment
from piecework.worker.payment.settlement import (
    NotPaid,
    Paid,
    SettleAgain,
    Unknown,
    Unsettled,
    classify,
    is_definite,
    reconcile,
)
from tests.support.worker.evm import real_evm
from tests.support.worker.payments import (
    SEEKER,
    SEPOLIA,
    STRANGER_KEY,
    WORKER,
    PricedContract,
    signed_payload,
    some_terms,
)
from tests.support.worker.seekers import CLIENTS, pay
from tests.support.worker.till import selling

pytestmark = pytest.mark.slow  # a chain of its own takes half a minute

PRICE = 5_000_000
SEPARATOR = "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818"
CONTRACT = PricedContract(network=SEPOLIA)
TERMS = some_terms(CONTRACT)
EVM = "invalid_exact_evm_payload"


@pytest.fixture(scope="module")
def evm():
    with real_evm("base-sepolia") as running:
        yield running


@pytest.fixture
def facilitator(evm):
    evm.control(settle="ok")
    evm.mint(SEEKER, PRICE - evm.balance(SEEKER))
    return HttpFacilitator(evm.url)


def fresh_payment(**changes):
    return read_payment(
        signed_payload(TERMS, **{"now": int(time.time()), "nonce": "0x" + secrets.token_hex(32), **changes})
    )


def settle(facilitator, payment, *, first=True):
    return classify(facilitator.settle(payment, TERMS, 30), payment, TERMS, first=first)


def look(evm, facilitator, payment, *hashes):
    record, now_ms = Unsettled(payment, TERMS, hashes), int(time.time() * 1000)
    return reconcile(record, gather(record, RpcChain(evm.rpc_url), facilitator, now_ms), now_ms)


def test_its_token_has_the_real_domain(evm):
    assert evm.control()["separator"] == SEPARATOR


@pytest.mark.parametrize("version", [1, 2])
def test_a_payment_moves_the_price_exactly_once(evm, facilitator, version):
    payment, before = fresh_payment(version=version), evm.balance(WORKER)

    assert facilitator.supported().serves(SEPOLIA, version)
    assert facilitator.verify(payment, TERMS).is_valid
    first = settle(facilitator, payment)
    again = settle(facilitator, payment, first=False)

    assert isinstance(first, Paid)
    assert isinstance(again, Unknown)
    assert evm.balance(WORKER) - before == PRICE
    assert evm.balance(SEEKER) == 0
    assert look(evm, facilitator, payment, again.transaction or first.transaction).transaction == first.transaction
    assert facilitator.verify(payment, TERMS).reason == (
        "invalid_exact_evm_nonce_already_used" if version == 2 else "invalid_exact_evm_transaction_simulation_failed"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value": str(PRICE - 1)}, f"{EVM}_authorization_value_mismatch"),
        ({"value": str(PRICE + 1)}, f"{EVM}_authorization_value_mismatch"),
        ({"to": SEEKER}, f"{EVM}_recipient_mismatch"),
        ({"validBefore": str(int(time.time()) + 3)}, f"{EVM}_authorization_valid_before"),
        ({"validAfter": str(int(time.time()) + 86_400)}, f"{EVM}_authorization_valid_after"),
        ({"domain": {"name": "USD Coin"}}, f"{EVM}_signature"),
        ({"key": STRANGER_KEY, "from_": SEEKER}, f"{EVM}_signature"),
        ({"key": STRANGER_KEY}, "invalid_exact_evm_insufficient_balance"),
    ],
)
def test_its_refusals_are_those_that_we_take_for_definite(facilitator, changes, reason):
    assert facilitator.verify(fresh_payment(**changes), TERMS).reason == reason
    assert is_definite(reason)


def test_a_payment_whose_answer_was_lost_is_found_on_the_chain(evm, facilitator):
    payment, before = fresh_payment(), evm.balance(WORKER)
    assert look(evm, facilitator, payment) == SettleAgain()
    evm.control(settle="lost")

    lost = facilitator.settle(payment, TERMS, 3)

    assert isinstance(lost, Interrupted)
    assert isinstance(look(evm, facilitator, payment), Paid)
    assert evm.balance(WORKER) - before == PRICE


def test_a_payer_drained_after_verify_did_not_pay(evm, facilitator):
    payment = fresh_payment()
    assert facilitator.verify(payment, TERMS).is_valid
    evm.control(burn={SEEKER: PRICE})

    failed = settle(facilitator, payment)

    assert isinstance(failed, Unknown)
    assert (failed.reason, bool(failed.transaction)) == ("transaction_failed", True)
    assert isinstance(look(evm, facilitator, payment, failed.transaction), NotPaid)


def test_a_cancelled_authorization_did_not_pay(evm, facilitator):
    payment, before = fresh_payment(), evm.balance(WORKER)
    evm.control(cancel=[SEEKER, payment.authorization.nonce])

    assert isinstance(settle(facilitator, payment), Unknown)
    assert look(evm, facilitator, payment).reason == "authorization_cancelled"
    assert evm.balance(WORKER) == before


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stock_client_moves_the_price(evm, facilitator, client):
    before = evm.balance(WORKER)

    with selling(CONTRACT, facilitator) as till:
        made = pay(client, till.url, {"X-Contract-ID": "ctr_demo01"}, {"brief": "b"})

    assert made.answers[0].status == 200, made.answers
    assert evm.balance(WORKER) - before == PRICE
