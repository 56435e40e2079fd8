"""The stub facilitator: it checks signatures by its own table, spends a nonce once, and fails as told."""

import json
import time
import urllib.request
from dataclasses import replace

import pytest

from local.facilitator.ledger import Ledger
from local.facilitator.server import StubFacilitator
from piecework.worker.chain.exchange import Answer, Interrupted, NotSent
from piecework.worker.chain.networks import BASE, BASE_SEPOLIA
from piecework.worker.chain.rpc import RpcChain
from piecework.worker.errors import WorkerError
from piecework.worker.payment.evidence import gather
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.payment.payments import read_payment
from piecework.worker.payment.settlement import (
    NotPaid,
    Paid,
    SettleAgain,
    Unknown,
    Unsettled,
    Wait,
    classify,
    reconcile,
)
from tests.support.machine import wait_until
from tests.support.worker.payments import (
    NONCE,
    NOW_MS,
    NOW_S,
    SEEKER,
    SEEKER_KEY,
    STRANGER_KEY,
    PricedContract,
    a_payment,
    signed_payload,
    some_terms,
)

TERMS = some_terms()
PAYMENT = a_payment()
EVM = "invalid_exact_evm_payload"


@pytest.fixture
def stub():
    with StubFacilitator(ledger=Ledger(clock=lambda: NOW_S), pending_seconds=60) as running:
        yield running


@pytest.fixture
def facilitator(stub):
    return HttpFacilitator(stub.url)


def settle(facilitator, payment=PAYMENT, *, first=True, word=""):
    """What came of a settlement; silence is not waited for."""
    seconds = 0.5 if word in {"hang", "lost"} else 20
    return classify(facilitator.settle(payment, TERMS, seconds), payment, TERMS, first=first)


def look(stub, facilitator, *hashes, now_ms=NOW_MS, **changes):
    record = Unsettled(PAYMENT, TERMS, hashes, **changes)
    return reconcile(record, gather(record, RpcChain(stub.rpc_url), facilitator, now_ms), now_ms)


def control(stub, **switches):
    body = json.dumps(switches).encode()
    urllib.request.urlopen(urllib.request.Request(f"{stub.url}/control", data=body, method="PUT")).close()


def told(stub):
    with urllib.request.urlopen(f"{stub.url}/control") as answer:
        return json.load(answer)


class TestItsRules:
    @pytest.mark.parametrize("network", [BASE, BASE_SEPOLIA])
    @pytest.mark.parametrize("version", [1, 2])
    def test_a_good_payment_is_valid_and_settles(self, facilitator, network, version):
        terms = some_terms(PricedContract(network=network))
        payment = a_payment(terms, version=version)

        assert facilitator.verify(payment, terms).is_valid
        assert isinstance(classify(facilitator.settle(payment, terms, 5), payment, terms, first=True), Paid)
        assert facilitator.supported().serves(network, version)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"domain": {"name": "USDC"}}, f"{EVM}_signature"),
            ({"domain": {"chainId": 1}}, f"{EVM}_signature"),
            ({"domain": {"verifyingContract": SEEKER}}, f"{EVM}_signature"),
            ({"to": SEEKER}, f"{EVM}_recipient_mismatch"),
            ({"value": "4999999"}, f"{EVM}_authorization_value_mismatch"),
            ({"value": "5000001"}, f"{EVM}_authorization_value_mismatch"),
            ({"validBefore": str(NOW_S + 3)}, f"{EVM}_authorization_valid_before"),
            ({"validAfter": str(NOW_S + 300)}, f"{EVM}_authorization_valid_after"),
            ({"accepted": {"network": "eip155:84532"}}, "network_mismatch"),
            ({"accepted": {"scheme": "upto"}}, "unsupported_scheme"),
        ],
    )
    def test_a_bad_payment_is_refused_for_its_reason(self, stub, facilitator, changes, reason):
        payment = read_payment(signed_payload(TERMS, **changes))

        verdict = facilitator.verify(payment, TERMS)

        assert (verdict.is_valid, verdict.reason) == (False, reason)
        assert isinstance(settle(facilitator, payment), NotPaid)
        assert stub.ledger.charges() == []

    def test_a_domain_name_that_we_announce_wrongly_verifies_nowhere(self, facilitator):
        wrong = replace(BASE, eip712_name="USDC")
        terms = some_terms(PricedContract(network=wrong))

        assert facilitator.verify(a_payment(terms), terms).reason == f"{EVM}_signature"

    def test_a_signature_by_somebody_else_is_refused(self, facilitator):
        forged = signed_payload(TERMS, key=STRANGER_KEY, from_=SEEKER)

        assert facilitator.verify(read_payment(forged), TERMS).reason == f"{EVM}_signature"

    @pytest.mark.parametrize("signature", ["0x" + "00" * 65, "0x12", "no hex", 7, None])
    def test_a_signature_that_is_not_one_is_refused(self, facilitator, signature):
        payload = {**PAYMENT.document["payload"], "signature": signature}
        forged = replace(PAYMENT, document={**PAYMENT.document, "payload": payload})

        assert facilitator.verify(forged, TERMS).reason == f"{EVM}_signature"

    def test_what_it_cannot_read_is_an_invalid_payload(self, stub, facilitator):
        broken = replace(PAYMENT, document={"x402Version": 2})

        assert facilitator.verify(broken, TERMS).reason == "invalid_payload"

    def test_a_nonce_is_spent_once(self, stub, facilitator):
        first = settle(facilitator)
        again = settle(facilitator, first=False)

        assert isinstance(first, Paid)
        assert isinstance(again, Unknown)
        assert (again.reason, again.transaction == first.transaction) == ("transaction_failed", False)
        assert facilitator.verify(PAYMENT, TERMS).reason == "invalid_exact_evm_nonce_already_used"
        assert [paid.nonce for paid in stub.ledger.charges()] == [NONCE]
        assert stub.count("settle", NONCE) == 2

    def test_a_payer_without_funds_is_refused(self, stub, facilitator):
        control(stub, funds={SEEKER: 4_999_999})

        assert facilitator.verify(PAYMENT, TERMS).reason == "invalid_exact_evm_insufficient_balance"
        assert isinstance(settle(facilitator), Unknown)
        assert stub.ledger.charges() == []


class TestItsSwitches:
    @pytest.mark.parametrize("word", ["500", "hang", "garbage"])
    def test_verify_can_be_out_of_order(self, stub, facilitator, word):
        stub.say("verify", word, "ok")

        with pytest.raises(WorkerError, match="cannot be reached"):
            HttpFacilitator(stub.url, verify_seconds=0.5 if word == "hang" else 20).verify(PAYMENT, TERMS)
        assert facilitator.verify(PAYMENT, TERMS).is_valid

    @pytest.mark.parametrize("word", ["invalid:insufficient_funds", "400:insufficient_funds"])
    def test_verify_can_refuse(self, stub, facilitator, word):
        stub.say("verify", word)

        assert facilitator.verify(PAYMENT, TERMS).reason == "insufficient_funds"

    @pytest.mark.parametrize(
        ("word", "kind", "charged"),
        [
            ("ok", Paid, 1),
            ("fail:insufficient_funds", NotPaid, 0),
            ("fail:internal_error", Unknown, 0),
            ("revert", Unknown, 0),
            ("cancelled", Unknown, 0),
            ("pending500", Unknown, 1),
            ("pending200", Unknown, 1),
            ("pending202", Unknown, 1),
            ("hang", Unknown, 0),
            ("lost", Unknown, 1),
            ("cut", Unknown, 0),
            ("lost-cut", Unknown, 1),
            ("garbage", Unknown, 0),
            ("lost-garbage", Unknown, 1),
            ("nohash", Unknown, 1),
            ("other-payer", Unknown, 1),
            ("500", Unknown, 0),
            ("401", NotSent, 0),
        ],
    )
    def test_settle_fails_in_every_way(self, stub, facilitator, word, kind, charged):
        control(stub, settle=word)

        assert isinstance(settle(facilitator, word=word), kind)
        wait_until(lambda: stub.count("settle") == 1 and len(stub.ledger.charges()) == charged)
        assert len(told(stub)["charges"]) == charged
        assert told(stub)["calls"] == [{"call": "settle", "nonce": NONCE, "word": word}]

    def test_supported_can_be_empty(self, stub, facilitator):
        stub.say("supported", "none")

        assert not facilitator.supported().served

    def test_it_can_be_down_and_come_back(self, stub, facilitator):
        stub.go_down()
        refused = facilitator.settle(PAYMENT, TERMS, 1)
        stub.come_up()

        assert isinstance(refused, NotSent)
        assert isinstance(settle(facilitator), Paid)

    def test_it_can_be_told_to_be_down_for_a_while(self, stub, facilitator):
        ends = time.monotonic() + 60
        control(stub, down_seconds=0.3)
        seen = []
        while time.monotonic() < ends and seen[-2:] != [NotSent, Answer]:
            seen.append(type(facilitator.settle(PAYMENT, TERMS, 1)))
            time.sleep(0.05)

        assert seen[-2:] == [NotSent, Answer]

    def test_a_call_is_logged_without_its_secret(self, stub, facilitator):
        settle(facilitator)

        assert PAYMENT.document["payload"]["signature"] not in json.dumps(told(stub))

    def test_it_can_be_reset(self, stub, facilitator):
        control(stub, settle="hang", reset=True)
        control(stub, reset=True)

        assert told(stub)["switches"]["settle"] == ["ok"]


class TestUnknownSettlementsByItsChain:
    def test_lost_answer_after_the_charge_is_found_paid(self, stub, facilitator):
        stub.say("settle", "lost")

        assert isinstance(facilitator.settle(PAYMENT, TERMS, 0.5), Interrupted)
        wait_until(stub.ledger.charges)
        assert isinstance(look(stub, facilitator, last_call_without_hash_ms=NOW_MS), Paid)

    @pytest.mark.parametrize("word", ["hang", "cut", "garbage", "500"])
    def test_a_lost_question_is_asked_again(self, stub, facilitator, word):
        stub.say("settle", word, "ok")
        settle(facilitator, word=word)
        wait_until(lambda: stub.count("settle") == 1)

        assert look(stub, facilitator, last_call_without_hash_ms=NOW_MS) == SettleAgain()
        assert isinstance(settle(facilitator, first=False), Paid)
        assert len(stub.ledger.charges()) == 1

    def test_a_pending_transfer_is_waited_for_and_settles_when_asked_again(self, stub, facilitator):
        stub.say("settle", "pending500", "ok")
        pending = settle(facilitator)

        assert isinstance(look(stub, facilitator, pending.transaction), Wait)
        assert settle(facilitator, first=False).transaction == pending.transaction
        assert isinstance(look(stub, facilitator, pending.transaction), Paid)
        assert len(stub.ledger.charges()) == 1

    def test_a_late_failure_is_no_proof_when_the_first_call_paid(self, stub, facilitator):
        stub.say("settle", "lost-cut", "ok")
        settle(facilitator)
        second = settle(facilitator, first=False)

        assert second.reason == "transaction_failed"
        assert isinstance(look(stub, facilitator, second.transaction), Paid)

    def test_a_drained_payer_did_not_pay(self, stub, facilitator):
        stub.ledger.funds[SEEKER.lower()] = 0
        failed = settle(facilitator)

        found = look(stub, facilitator, failed.transaction)

        assert isinstance(found, NotPaid)
        assert found.reason == "transaction_failed"

    def test_a_cancelled_authorization_did_not_pay(self, stub, facilitator):
        stub.say("settle", "cancelled")
        failed = settle(facilitator)

        found = look(stub, facilitator, failed.transaction)

        assert isinstance(found, NotPaid)
        assert found.reason == "authorization_cancelled"

    def test_somebody_elses_payment_of_the_same_price_is_not_ours(self, stub, facilitator):
        other = a_payment(nonce="0x" + "cd" * 32, key=SEEKER_KEY)
        paid = settle(facilitator, other)

        assert isinstance(look(stub, facilitator, paid.transaction), Wait)
