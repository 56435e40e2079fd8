"""What a settlement's answer means, and how an unknown one ends; the witnesses are fakes."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from piecework.worker.chain import rpc
from piecework.worker.chain.exchange import Answer, Interrupted, NotSent
from piecework.worker.chain.rpc import Block, ChainUnavailable, Log, Receipt, word
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.evidence import Evidence, Unsettled, gather
from piecework.worker.payment.facilitator import Verdict, unavailable
from piecework.worker.payment.reasons import DEFINITE, is_definite
from piecework.worker.payment.settlement import (
    NotPaid,
    Paid,
    PaidUnconfirmed,
    SettleAgain,
    Unknown,
    Unresolved,
    Wait,
    classify,
    give_up_ms,
    look_seconds,
    reconcile,
    resend_seconds,
)
from tests.support.worker.payments import (
    HASH,
    NONCE,
    NOW_MS,
    NOW_S,
    SEEKER,
    SEPOLIA,
    WORKER,
    PricedContract,
    a_payment,
    refused,
    settled,
    some_terms,
)

TERMS = some_terms()
PAYMENT = a_payment()
ENDS_MS = (NOW_S + 900) * 1000  # the authorization's end
OTHER_HASH = "0x" + "9c" * 32

DEFINITE_REASONS = [
    "insufficient_funds",
    "invalid_exact_evm_insufficient_balance",
    "invalid_exact_evm_payload_authorization_valid_before",
    "invalid_exact_evm_payload_authorization_valid_after",
    "invalid_exact_evm_payload_authorization_value_mismatch",
    "invalid_exact_evm_payload_recipient_mismatch",
    "invalid_exact_evm_payload_signature",
    "invalid_scheme",
    "unsupported_scheme",
    "invalid_network",
    "network_mismatch",
    "invalid_payload",
    "invalid_payment_requirements",
    "invalid_x402_version",
    "missing_eip712_domain",
    "invalid_exact_evm_token_name_mismatch",
    "invalid_exact_evm_token_version_mismatch",
    "asset_not_deployed_contract",
    "invalid_exact_evm_payload_authorization_from_address_kyt",
]
OPEN_REASONS = [
    "settlement_pending",
    "invalid_exact_evm_nonce_already_used",
    "transaction_failed",
    "invalid_transaction_state",
    "unexpected_settle_error",
    "unexpected_verify_error",
    "failed_to_execute_transfer",
    "internal_error",
    "",
    "a reason that is not a word",
]


def meaning(answer, *, first=True, payment=PAYMENT):
    return classify(answer, payment, TERMS, first=first)


class TestClassifying:
    def test_success_with_a_hash_on_our_network_is_paid(self):
        assert meaning(settled()) == Paid(
            HASH, {"success": True, "transaction": HASH, "network": "eip155:8453", "payer": SEEKER}
        )

    def test_a_later_success_is_paid_too(self):
        assert isinstance(meaning(settled(), first=False), Paid)

    def test_a_version_1_receipt_has_the_short_network_name(self):
        assert meaning(settled(network="base"), payment=a_payment(version=1)).receipt["network"] == "base"

    @pytest.mark.parametrize(
        "changes",
        [
            {"transaction": ""},
            {"transaction": None},
            {"transaction": "0xabc"},
            {"transaction": HASH + "00"},
            {"transaction": HASH + "\n"},
            {"transaction": 7},
            {"network": "eip155:84532"},
            {"network": None},
            {"network": ["eip155:8453"]},
            {"network": {"name": "base"}},
            {"payer": WORKER},
            {"amount": "4999999"},
            {"status": 202},
        ],
    )
    def test_a_success_that_lacks_anything_is_unknown(self, changes):
        assert isinstance(meaning(settled(**changes)), Unknown)

    def test_another_payer_or_amount_alarms(self):
        assert meaning(settled(payer=WORKER)).alarm == "payer_mismatch"
        assert meaning(settled(amount="1")).alarm == "amount_mismatch"

    @pytest.mark.parametrize("reason", DEFINITE_REASONS)
    @pytest.mark.parametrize("status", [200, 400, 402, 500])
    def test_a_definite_refusal_of_the_first_call_is_not_paid(self, reason, status):
        assert meaning(refused(reason, status=status)) == NotPaid(
            reason,
            {
                "success": False,
                "errorReason": reason,
                "transaction": "",
                "network": "eip155:8453",
                "payer": SEEKER,
            },
        )

    @pytest.mark.parametrize("reason", DEFINITE_REASONS)
    def test_a_definite_refusal_proves_nothing_later_or_with_a_hash_or_when_not_final(self, reason):
        assert isinstance(meaning(refused(reason), first=False), Unknown)
        assert meaning(refused(reason, HASH)) == Unknown(reason, HASH)
        assert isinstance(meaning(refused(reason, "0x12")), Unknown)
        assert isinstance(meaning(refused(reason, status=202)), Unknown)

    @pytest.mark.parametrize("reason", OPEN_REASONS)
    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("transaction", ["", HASH])
    @pytest.mark.parametrize("status", [200, 202, 400, 500])
    def test_every_other_refusal_is_unknown(self, reason, first, transaction, status):
        found = meaning(refused(reason, transaction, status=status), first=first)

        assert isinstance(found, Unknown)
        assert found.transaction == (transaction or None)

    def test_a_nonce_that_is_used_at_the_first_call_alarms(self):
        reason = "invalid_exact_evm_nonce_already_used"

        assert meaning(refused(reason)).alarm == "nonce_used_on_first_settle"
        assert meaning(refused(reason), first=False).alarm is None

    @pytest.mark.parametrize("answer", [NotSent("ConnectionRefusedError"), Answer(401, None), Answer(403, {"no": 1})])
    def test_nothing_sent_or_no_credentials_is_not_sent(self, answer):
        assert isinstance(meaning(answer), NotSent)

    @pytest.mark.parametrize("status", [200, 202, 302, 400, 404, 429, 500, 502, 503])
    @pytest.mark.parametrize("document", [None, {}, {"success": "true"}, {"success": 1}, {"isValid": True}])
    def test_an_answer_that_does_not_say_is_unknown(self, status, document):
        assert isinstance(meaning(Answer(status, document)), Unknown)

    def test_no_answer_is_unknown(self):
        assert isinstance(meaning(Interrupted("TimeoutError")), Unknown)

    def test_a_foreign_reason_reaches_nobody(self):
        assert meaning(refused("<script>" * 50)).reason == "unnamed_reason"

    @given(
        st.one_of(
            st.builds(NotSent, st.text()),
            st.builds(Interrupted, st.text()),
            st.builds(
                Answer,
                st.integers(100, 599),
                st.none()
                | st.fixed_dictionaries(
                    {},
                    optional={
                        "success": st.booleans() | st.none() | st.text(),
                        "transaction": st.sampled_from(["", HASH, "0x", None, 5]),
                        "network": st.sampled_from(["eip155:8453", "base", "eip155:1", None]),
                        "payer": st.sampled_from([SEEKER, SEEKER.lower(), WORKER, None, 5]),
                        "errorReason": st.sampled_from(DEFINITE_REASONS + OPEN_REASONS) | st.text() | st.none(),
                        "amount": st.sampled_from(["5000000", 5000000, "1", None]),
                    },
                ),
            ),
        ),
        st.booleans(),
    )
    def test_everything_has_a_meaning_and_only_proof_is_final(self, answer, first):
        found = meaning(answer, first=first)

        document = getattr(answer, "document", None) or {}
        if isinstance(found, Paid):
            assert document["success"] is True
            assert document["transaction"] == HASH == found.transaction
            assert answer.status != 202
        elif isinstance(found, NotPaid):
            assert first
            assert document["success"] is False
            assert not document.get("transaction")
            assert is_definite(found.reason)
        else:
            assert isinstance(found, NotSent | Unknown)

    def test_the_definite_reasons_are_the_listed_ones(self):
        assert all(map(is_definite, DEFINITE_REASONS))
        assert not any(map(is_definite, OPEN_REASONS))
        assert set(DEFINITE_REASONS) >= DEFINITE
        assert not is_definite("other_value_mismatch")


def record(*hashes, **changes):
    return Unsettled(PAYMENT, TERMS, hashes, **changes)


def chain_says(**changes):
    return Evidence(**{"seconds": NOW_S, "block": 7, **changes})


def verify_says(reason=None, at_ms=NOW_MS):
    return Evidence(at_ms // 1000 - 60, verdict=Verdict(is_valid=reason is None, reason=reason))


def decide(seen, now_ms, *hashes, **changes):
    return reconcile(record(*hashes, **changes), seen, now_ms)


FUNDS_MISSING = "invalid_exact_evm_insufficient_balance"
OVER_MS = ENDS_MS + 61_000  # a minute after the authorization's end
OVER_S = OVER_MS // 1000
FAILED = {"reverted": frozenset({HASH})}

# What a witness says, what is known of the record, and what is decided while the evidence is fresh.
FRESH_DECISIONS = [
    (chain_says(nonce_spent=True, paid=HASH), {}, NOW_MS, Paid),
    (chain_says(nonce_spent=True, cancelled=True), {}, NOW_MS, NotPaid),
    (chain_says(nonce_spent=True), {}, NOW_MS, Wait),
    (chain_says(seconds=OVER_S), {"hashes": (HASH,)}, OVER_MS, NotPaid),
    (chain_says(), {"hashes": (HASH,)}, NOW_MS, Wait),
    (chain_says(reverted=frozenset({OTHER_HASH})), {"hashes": (HASH, OTHER_HASH)}, NOW_MS, Wait),
    (chain_says(**FAILED), {"hashes": (HASH,)}, NOW_MS, NotPaid),
    (chain_says(), {}, NOW_MS, SettleAgain),
    (verify_says("invalid_exact_evm_nonce_already_used"), {}, NOW_MS, PaidUnconfirmed),
    (verify_says(), {}, NOW_MS, SettleAgain),
    (verify_says(FUNDS_MISSING, OVER_MS + 60_000), {}, OVER_MS + 60_000, NotPaid),
    (verify_says("insufficient_funds"), {}, NOW_MS, Wait),
    (None, {}, NOW_MS, Wait),
]
# What stands on the chain counts at any age; what is absent counts while it is fresh.
LASTING = (Paid, PaidUnconfirmed)


def stale_ways(seen, known, now_ms):
    """The same evidence, too old in each way; what a facilitator says names no block."""
    yield replace(seen, seconds=now_ms // 1000 - 61), known
    yield seen, {**known, "last_call_ms": seen.seconds * 1000 + 1}
    if seen.block is not None:
        yield replace(seen, newest_receipt=seen.block + 1), known


class TestReconciling:
    @pytest.mark.parametrize(("seen", "known", "now_ms", "kind"), FRESH_DECISIONS)
    def test_fresh_evidence_decides(self, seen, known, now_ms, kind):
        assert isinstance(reconcile(Unsettled(PAYMENT, TERMS, **known), seen, now_ms), kind)

    @pytest.mark.parametrize(("seen", "known", "now_ms", "kind"), [row for row in FRESH_DECISIONS if row[0]])
    def test_evidence_that_is_not_fresh_decides_nothing_that_may_still_change(self, seen, known, now_ms, kind):
        lasts = kind in LASTING or seen.cancelled

        for old, of_record in stale_ways(seen, known, now_ms):
            found = reconcile(Unsettled(PAYMENT, TERMS, **of_record), old, now_ms)
            assert isinstance(found, kind if lasts else Wait)

    def test_evidence_as_new_as_the_last_call_and_the_newest_receipt_is_fresh(self):
        edge = chain_says(newest_receipt=7, **FAILED)

        assert isinstance(decide(edge, NOW_MS + 60_999, HASH, last_call_ms=NOW_MS), NotPaid)
        assert isinstance(decide(edge, NOW_MS + 61_000, HASH, last_call_ms=NOW_MS), Wait)
        assert isinstance(decide(edge, NOW_MS, HASH, last_call_ms=NOW_MS + 1), Wait)

    def test_the_reasons_say_why(self):
        assert decide(chain_says(seconds=OVER_S), OVER_MS).reason == "authorization_expired_unused"
        assert decide(chain_says(nonce_spent=True, cancelled=True), NOW_MS).reason == "authorization_cancelled"
        assert decide(chain_says(**FAILED), NOW_MS, HASH).reason == "transaction_failed"
        assert decide(chain_says(nonce_spent=True, paid=HASH), NOW_MS, HASH) == Paid(
            HASH, {"success": True, "transaction": HASH, "network": "eip155:8453", "payer": SEEKER}
        )

    def test_a_spent_nonce_alone_proves_nothing_even_after_the_end(self):
        assert isinstance(decide(chain_says(nonce_spent=True, seconds=OVER_S), OVER_MS), Wait)

    def test_the_end_must_have_passed_by_the_chains_own_clock_and_ours(self):
        for chain_seconds, now_ms in ((OVER_S - 1, OVER_MS), (OVER_S, OVER_MS - 1_000)):
            assert isinstance(decide(chain_says(seconds=chain_seconds), now_ms, HASH), Wait)

    def test_a_call_without_an_answer_may_still_show_for_two_minutes_of_the_chains_time(self):
        for quiet_ms, kind in ((119_999, Wait), (120_000, NotPaid)):
            sent_ms = NOW_MS - quiet_ms
            decision = decide(chain_says(**FAILED), NOW_MS + 30_000, HASH, last_call_without_hash_ms=sent_ms)
            assert isinstance(decision, kind)

    def test_nothing_is_settled_again_once_a_transaction_was_named(self):
        assert isinstance(decide(chain_says(), NOW_MS, HASH, last_call_ms=NOW_MS - 600_000), Wait)

    def test_nothing_is_settled_again_when_facilitators_would_refuse_it(self):
        for left_ms, kind in ((6_000, SettleAgain), (5_000, Wait)):
            now_ms = ENDS_MS - left_ms
            assert isinstance(decide(chain_says(seconds=now_ms // 1000), now_ms), kind)


class TestReconcilingByVerify:
    def test_missing_funds_are_waited_for_until_the_end_is_proven(self):
        late = OVER_MS + 60_000  # a facilitator's word may be a minute old

        assert decide(verify_says(FUNDS_MISSING), NOW_MS) == Wait(f"the facilitator says {FUNDS_MISSING}", True)
        assert isinstance(decide(verify_says(FUNDS_MISSING, late - 1_000), late - 1_000), Wait)
        assert isinstance(decide(verify_says(FUNDS_MISSING, late), late), NotPaid)

    def test_funds_that_were_missing_before_the_end_are_not_paid_after_it(self):
        late = OVER_MS + 60_000
        seen = verify_says("invalid_exact_evm_payload_authorization_valid_before", late)

        assert isinstance(decide(seen, late, funds_missing_ms=NOW_MS), NotPaid)
        assert isinstance(decide(seen, late), Wait)

    def test_funds_that_were_missing_before_the_last_call_prove_nothing(self):
        late = OVER_MS + 60_000
        seen = verify_says("invalid_exact_evm_payload_authorization_valid_before", late)

        for last_call_ms, kind in ((NOW_MS - 60_000, NotPaid), (NOW_MS - 59_999, Wait), (NOW_MS + 90_000, Wait)):
            assert isinstance(decide(seen, late, funds_missing_ms=NOW_MS, last_call_ms=last_call_ms), kind)

    def test_missing_funds_do_not_count_while_a_lost_call_may_still_show(self):
        for quiet_ms, counts in ((179_999, False), (180_000, True)):
            found = decide(verify_says(FUNDS_MISSING), NOW_MS, last_call_without_hash_ms=NOW_MS - quiet_ms)
            assert found.funds_missing is counts

    def test_a_balance_read_without_the_nonce_is_no_proof(self):
        """A payer whose last money was this payment has missing funds, too."""
        end_ms = give_up_ms(record())

        assert decide(verify_says("insufficient_funds"), NOW_MS) == Wait("the facilitator says insufficient_funds")
        assert isinstance(decide(verify_says("insufficient_funds", end_ms), end_ms), Unresolved)

    @pytest.mark.parametrize("reason", ["invalid_payload", "internal_error", "unnamed_reason"])
    def test_anything_else_is_waited_out(self, reason):
        assert isinstance(decide(verify_says(reason), NOW_MS), Wait)


VALID_FOR_YEARS = verify_says()


class TestGivingUp:
    @pytest.mark.parametrize("evidence", [None, chain_says(nonce_spent=True), verify_says("internal_error")])
    def test_what_is_undecided_in_the_end_is_unresolved(self, evidence):
        assert give_up_ms(record()) == ENDS_MS + 600_000
        assert isinstance(reconcile(record(), evidence, give_up_ms(record()) - 1), Wait)
        assert isinstance(reconcile(record(), evidence, give_up_ms(record())), Unresolved)

    @pytest.mark.parametrize("evidence", [None, verify_says("insufficient_funds"), VALID_FOR_YEARS])
    def test_a_doubt_ends_two_days_after_the_claim_however_long_the_authorization_lives(self, evidence):
        payment = replace(PAYMENT, authorization=replace(PAYMENT.authorization, valid_before=2**256 - 1))
        claimed = Unsettled(payment, TERMS, since_ms=NOW_MS)
        end_ms = NOW_MS + 2 * 86_400_000 + 600_000

        assert isinstance(reconcile(claimed, evidence, end_ms - 1), Wait | SettleAgain)
        assert isinstance(reconcile(claimed, evidence, end_ms), Unresolved)
        assert isinstance(reconcile(claimed, chain_says(nonce_spent=True, paid=HASH), end_ms), Paid)

    def test_proof_still_counts_at_the_end(self):
        late = give_up_ms(record()) + 1

        assert isinstance(reconcile(record(), chain_says(nonce_spent=True, paid=HASH), late), Paid)
        assert isinstance(reconcile(record(), chain_says(seconds=late // 1000), late), NotPaid)
        assert isinstance(
            reconcile(record(), verify_says("invalid_exact_evm_nonce_already_used"), late), PaidUnconfirmed
        )

    def test_looks_and_repeats_come_at_growing_distances(self):
        assert [look_seconds(looks) for looks in range(8)] == [120, 30, 60, 120, 300, 600, 600, 600]
        assert [look_seconds(looks, stale=True) for looks in range(1, 5)] == [30, 60, 60, 60]
        assert [resend_seconds(tries) for tries in range(1, 6)] == [5, 30, 120, 300, 300]

    @given(
        st.none()
        | st.builds(
            Evidence,
            st.integers(NOW_S, NOW_S + 3_000),
            st.just(7),
            st.sampled_from([0, 7, 8]),
            nonce_spent=st.booleans(),
            paid=st.sampled_from([None, HASH]),
            reverted=st.frozensets(st.sampled_from([HASH, OTHER_HASH])),
            cancelled=st.booleans(),
        )
        | st.builds(verify_says, st.none() | st.sampled_from(DEFINITE_REASONS + OPEN_REASONS)),
        st.sampled_from([(), (HASH,), (HASH, OTHER_HASH)]),
        st.integers(NOW_MS, NOW_MS + 3_000_000),
    )
    @example(chain_says(), (), ENDS_MS + 600_000)
    def test_every_unknown_settlement_ends_and_is_never_settled_again_after_its_end(self, evidence, hashes, now_ms):
        decision = reconcile(record(*hashes), evidence, now_ms)

        if now_ms >= give_up_ms(record()):
            assert isinstance(decision, Paid | PaidUnconfirmed | NotPaid | Unresolved)
        if isinstance(decision, SettleAgain):
            assert now_ms < ENDS_MS and evidence.why_stale(record(*hashes), now_ms) is None
            assert not hashes or evidence.block is None  # no node: what became of a hash cannot be seen
        if isinstance(decision, Paid):
            assert evidence.paid


@dataclass
class FakeChain:
    """A chain of a few transactions."""

    transactions: dict[str, Receipt] = field(default_factory=dict)
    spent: bool = False
    asked: list[str] = field(default_factory=list)
    number: int = 50_000

    def latest(self):
        return Block(self.number, NOW_S)

    def receipt(self, transaction):
        return self.transactions.get(transaction)

    def nonce_spent(self, asset, payer, nonce, block):
        assert (asset, payer, nonce, block) == (TERMS.network.usdc, SEEKER, NONCE, self.number)
        return self.spent

    def nonce_logs(self, asset, payer, nonce, first, last):
        self.asked.append((first, last))
        logs = (log for receipt in self.transactions.values() for log in receipt.logs)
        kinds = {rpc.AUTHORIZATION_USED, rpc.AUTHORIZATION_CANCELED}
        wanted = [log for log in logs if log.topics[0] in kinds and log.topics[2] == "0x" + word(nonce)]
        return wanted if first <= self.number - 5_000 <= last else []


class NoChain(FakeChain):
    def latest(self):
        raise ChainUnavailable("down")


class FakeFacilitator:
    def __init__(self, verdict=None):
        self.verdict = verdict

    def verify(self, payment, terms):
        if self.verdict is None:
            raise unavailable()
        return self.verdict


def log(kind, *topics, transaction=HASH, data="0x", asset=TERMS.network.usdc):
    return Log(asset.lower(), (kind, *("0x" + word(topic) for topic in topics)), data, transaction)


def transfer(value=5_000_000, payer=SEEKER, pay_to=WORKER, **changes):
    return log(rpc.TRANSFER, payer, pay_to, data=f"0x{value:064x}", **changes)


def used(nonce=NONCE, **changes):
    return log(rpc.AUTHORIZATION_USED, SEEKER, nonce, **changes)


def seen(chain, *hashes):
    return gather(record(*hashes), chain, FakeFacilitator(), NOW_MS)


class TestGathering:
    def test_a_reported_transaction_that_paid_is_found(self):
        chain = FakeChain({HASH: Receipt(True, (used(), transfer()))}, spent=True)

        assert seen(chain, HASH).paid == HASH

    def test_a_transaction_that_nobody_reported_is_found_by_its_nonce(self):
        chain = FakeChain({HASH: Receipt(True, (used(), transfer()))}, spent=True)

        assert seen(chain).paid == HASH
        assert len(chain.asked) > 1
        assert all(0 < last - first < 2_000 for first, last in chain.asked)

    def test_all_blocks_of_the_authorizations_life_are_searched(self):
        chain = FakeChain(spent=True, number=100_000)

        assert seen(chain) == Evidence(NOW_S, 100_000, nonce_spent=True)
        assert chain.asked[0][1] == 100_000
        assert chain.asked[-1][0] <= 100_000 - (86_400 - 900) // 2
        assert all(newer[0] == older[1] + 1 for newer, older in zip(chain.asked, chain.asked[1:], strict=False))

    def test_an_authorization_that_lives_for_years_is_searched_for_since_its_claim(self):
        payment = replace(PAYMENT, authorization=replace(PAYMENT.authorization, valid_before=2**256 - 1))
        chain = FakeChain({HASH: Receipt(True, (used(), transfer()))}, spent=True)
        claimed = Unsettled(payment, TERMS, since_ms=NOW_MS - 9_000_000)

        assert gather(claimed, chain, FakeFacilitator(), NOW_MS).paid == HASH
        assert chain.asked[-1][0] >= 50_000 - (9_000 + 3_600) // 2

    def test_of_an_authorization_that_ended_long_ago_the_blocks_of_its_lifetime_are_searched_first(self):
        ended = replace(PAYMENT, authorization=replace(PAYMENT.authorization, valid_before=NOW_S - 30 * 86_400))
        claimed = Unsettled(ended, TERMS, since_ms=(NOW_S - 31 * 86_400) * 1000)
        chain = FakeChain(spent=True, number=10_000_000)

        gather(claimed, chain, FakeFacilitator(), NOW_MS)

        last = 10_000_000 - (30 * 86_400 - 3_600) // 2
        assert chain.asked[0][1] == last and chain.asked[23][0] == 10_000_000 - (31 * 86_400 + 3_600) // 2
        assert chain.asked[24][1] == 10_000_000 and chain.asked[-1][0] == last + 1  # it can be cancelled all the time

    def test_a_node_whose_time_is_far_ahead_makes_nobody_search_its_whole_chain(self):
        chain = FakeChain(spent=True, number=2**52)
        chain.latest = lambda: Block(2**52, 2**37)

        gather(record(), chain, FakeFacilitator(), NOW_MS)

        assert len(chain.asked) < 100

    @pytest.mark.parametrize(
        "logs",
        [
            (used(),),
            (transfer(),),
            (used("0x" + "cd" * 32), transfer()),
            (used(), transfer(value=4_999_999)),
            (used(), transfer(payer=WORKER)),
            (used(), transfer(pay_to=SEEKER)),
            (used(), transfer(asset=WORKER)),
            (used(asset=WORKER), transfer()),
        ],
    )
    def test_a_transaction_that_did_other_things_did_not_pay(self, logs):
        assert seen(FakeChain({HASH: Receipt(True, logs)}, spent=True), HASH).paid is None

    def test_a_reverted_transaction_did_not_pay(self):
        chain = FakeChain({HASH: Receipt(False, (used(), transfer()), 49_000)})

        assert seen(chain, HASH) == Evidence(NOW_S, 50_000, 49_000, reverted=frozenset({HASH}))

    def test_a_transaction_without_a_receipt_is_pending(self):
        assert seen(FakeChain(), HASH) == Evidence(NOW_S, 50_000)
        assert isinstance(reconcile(record(HASH), seen(FakeChain(), HASH), NOW_MS), Wait)

    def test_a_cancellation_is_found(self):
        chain = FakeChain({HASH: Receipt(True, (log(rpc.AUTHORIZATION_CANCELED, SEEKER, NONCE),))}, spent=True)

        assert seen(chain).cancelled

    def test_a_silent_node_says_nothing_and_verify_is_not_asked_instead(self):
        verdict = Verdict(is_valid=True)

        assert gather(record(), NoChain(), FakeFacilitator(verdict), NOW_MS) is None

    def test_on_a_testnet_without_a_node_verify_is_the_witness(self):
        verdict = Verdict(is_valid=False, reason="insufficient_funds")
        on_testnet = replace(record(), terms=some_terms(PricedContract(network=SEPOLIA)))

        assert gather(on_testnet, None, FakeFacilitator(verdict), NOW_MS) == Evidence(NOW_S - 60, verdict=verdict)
        assert gather(on_testnet, None, FakeFacilitator(), NOW_MS) is None

    def test_what_became_of_real_money_is_never_told_by_a_facilitator(self):
        """It does not tell a nonce that was used from one that its payer cancelled."""
        verdict = Verdict(is_valid=False, reason="invalid_exact_evm_nonce_already_used")

        assert gather(record(), None, FakeFacilitator(verdict), NOW_MS) is None

    def test_a_payer_in_any_case_is_the_same_payer(self):
        payment = replace(PAYMENT, authorization=replace(PAYMENT.authorization, from_=SEEKER.lower()))
        chain = FakeChain({HASH: Receipt(True, (used(), transfer()))})

        assert gather(Unsettled(payment, TERMS, (HASH,)), chain, FakeFacilitator(), NOW_MS).paid == HASH


def test_what_cannot_be_counted_is_logged_and_changes_no_settlement(caplog):
    def fail(metrics):
        raise RuntimeError("the counter is broken")

    SettlementCounts(fail).unresolved()

    assert "a settlement was not counted" in caplog.text and "the counter is broken" in caplog.text
