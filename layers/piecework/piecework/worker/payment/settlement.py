"""The outcome of a settlement: PAID, NOT SENT, NOT PAID or UNKNOWN, and how UNKNOWN ends (worker specification 2.8).

    classify(settled, payment, terms, first=…) -> Paid | NotSent | NotPaid | Unknown
        `first`: no earlier `/settle` of this claim may have reached the facilitator
    reconcile(record, evidence, now_ms) -> Paid | PaidUnconfirmed | NotPaid | SettleAgain | Wait | Unresolved
        which evidence decides what, and at what age: the table in `piecework.worker.payment.evidence`
    give_up_ms(record)                             # from here on what is undecided is unresolved
    resend_seconds(tries), look_seconds(looks)     # when to try again after NOT SENT, when to look again at UNKNOWN

Pure decisions: nothing here asks anybody. Only positive evidence releases a result, and only a fresh proof that the
authorization did not and cannot pay asks the seeker for another one.
"""

import re
from collections.abc import Mapping
from typing import Final

from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.chain.exchange import Answer, NotSent
from piecework.worker.payment.evidence import MOST_BEHIND_SECONDS, Evidence, Unsettled
from piecework.worker.payment.facilitator import Settled, Verdict, network_name, payer_differs
from piecework.worker.payment.payments import Payment
from piecework.worker.payment.reasons import FUNDS_MISSING_NONCE_UNUSED, NONCE_USED, is_definite, read_reason
from piecework.worker.payment.terms import PaymentTerms

TRANSACTION: Final = re.compile(r"0x[0-9a-fA-F]{64}")
NOT_ALLOWED: Final = frozenset({401, 403})
PENDING: Final = 202
EXPIRED_UNUSED: Final = "authorization_expired_unused"

GIVE_UP_SECONDS: Final = 600  # after an authorization's end
LONGEST_DOUBT_SECONDS: Final = 2 * 86_400  # from the claim on: the longest task, then the longest usual authorization
PROOF_MARGIN_SECONDS: Final = 60  # after an authorization's end, for clocks that differ
FACILITATOR_MARGIN_SECONDS: Final = 6  # facilitators take no authorization that ends sooner
QUIET_MS: Final = 120_000  # how long a transfer of which we know nothing may take to show on the chain
RESEND_SECONDS: Final = (5, 30, 120, 300)
STALE_SECONDS: Final = 60  # at most, until a witness that stood behind is asked again
LOOK_SECONDS: Final = (120, 30, 60, 120, 300, 600)  # the first is the watch message sent before `/settle`


@dataclass(frozen=True, slots=True)
class Paid:
    """The money moved in this transaction; `receipt` is the SettleResponse for the seeker."""

    transaction: str
    receipt: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class NotPaid:
    """The money did not move, for a reason that is final for this authorization."""

    reason: str
    receipt: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The money may have moved. `transaction` is a hash to look for; `alarm` says what an operator should see."""

    reason: str
    transaction: str | None = None
    alarm: str | None = None


def classify(
    settled: Settled, payment: Payment, terms: PaymentTerms, *, first: bool
) -> Paid | NotSent | NotPaid | Unknown:
    """What one `/settle` means; every answer and every failure has exactly one meaning.

    A refusal proves nothing once an earlier call may have paid, so it is definite on the first call only. NotSent is
    about this call alone: after an ambiguous one the settlement stays unknown.
    """
    if isinstance(settled, NotSent):
        return settled
    if not isinstance(settled, Answer):
        return Unknown(f"no answer: {settled.why}")
    document = settled.document or {}
    if not isinstance(document.get("success"), bool):
        if settled.status in NOT_ALLOWED:
            return NotSent(f"HTTP {settled.status}")
        return Unknown(f"unreadable answer, HTTP {settled.status}", _transaction(document))
    if document["success"]:
        return _success(settled.status, document, payment, terms)
    return _failure(settled.status, document, payment, terms, first)


def paid_receipt(payment: Payment, terms: PaymentTerms, transaction: str) -> dict[str, Json]:
    """The SettleResponse of a payment."""
    return {
        "success": True,
        "transaction": transaction,
        "network": network_name(terms.network, payment.version),
        "payer": payment.authorization.from_,
    }


def refused_receipt(payment: Payment, terms: PaymentTerms, reason: str) -> dict[str, Json]:
    """The SettleResponse of a payment that was not taken."""
    return paid_receipt(payment, terms, "") | {"success": False, "errorReason": reason}


def resend_seconds(tries: int) -> int:
    """How long to wait after this many settlements (from 1) that were not sent."""
    return RESEND_SECONDS[min(tries, len(RESEND_SECONDS)) - 1]


def look_seconds(looks: int, *, stale: bool = False) -> int:
    """How long to wait before the next look at an unknown settlement, after this many (from 0)."""
    seconds = LOOK_SECONDS[min(looks, len(LOOK_SECONDS) - 1)]
    return min(seconds, STALE_SECONDS) if stale else seconds


def give_up_ms(record: Unsettled) -> int:
    """From this time on a settlement that is still unknown is unresolved, however long its authorization lives."""
    ends_ms = record.payment.authorization.valid_before * 1000
    if record.since_ms:
        ends_ms = min(ends_ms, record.since_ms + LONGEST_DOUBT_SECONDS * 1000)
    return ends_ms + GIVE_UP_SECONDS * 1000


@dataclass(frozen=True, slots=True)
class PaidUnconfirmed:
    """The nonce is spent, by all we can see for this payment: release without a receipt, and alarm."""


@dataclass(frozen=True, slots=True)
class SettleAgain:
    """Send `/settle` with the identical payload: the chain takes a nonce once."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be said yet; keep the time of a wait that `funds_missing` in the record.

    With `stale` the witness only stands behind, and may know more within a minute.
    """

    why: str
    funds_missing: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Time is up; the result stays withheld until an operator decides."""

    why: str


Decision = Paid | PaidUnconfirmed | NotPaid | SettleAgain | Wait | Unresolved


def reconcile(record: Unsettled, seen: Evidence | None, now_ms: int) -> Decision:
    """What to do about an unknown settlement, given what could be found out; None when nobody could be asked."""
    decision = _decide(record, seen, now_ms) if seen is not None else Wait("no witness could be asked")
    if isinstance(decision, Wait | SettleAgain) and now_ms >= give_up_ms(record):
        return Unresolved(decision.why if isinstance(decision, Wait) else "the authorization is unspent and not taken")
    return decision


def _decide(record: Unsettled, seen: Evidence, now_ms: int) -> Decision:
    """What stands on the chain counts from any block; what is absent only if the evidence is fresh."""
    stands = _standing(record, seen)
    if stands is not None:
        return stands
    if stale := seen.why_stale(record, now_ms):
        return Wait(stale, stale=True)
    if seen.verdict is None:
        return _unspent(record, seen, now_ms)
    return _again(record, now_ms) if seen.verdict.is_valid else _refused(record, seen, seen.verdict, now_ms)


def _standing(record: Unsettled, seen: Evidence) -> Decision | None:
    """What follows from facts that cannot change any more; None if no such fact was read."""
    if seen.paid:
        return Paid(seen.paid, paid_receipt(record.payment, record.terms, seen.paid))
    if seen.cancelled:
        return _not_paid(record, "authorization_cancelled")
    if seen.nonce_spent:
        return Wait("the nonce is spent and the transfer is not found yet")
    is_used = seen.verdict is not None and (seen.verdict.reason or "").endswith(NONCE_USED)
    return PaidUnconfirmed() if is_used else None


def _unspent(record: Unsettled, seen: Evidence, now_ms: int) -> Decision:
    if _is_over(record, seen, now_ms):
        return _not_paid(record, EXPIRED_UNUSED)
    if set(record.hashes) - seen.reverted:
        return Wait("a transaction that was named has not failed, and not paid yet")
    if not record.hashes:
        return _again(record, now_ms)
    if not _is_quiet(record, seen):
        return Wait("a call without an answer may still show on the chain")
    return _not_paid(record, "transaction_failed")


def _refused(record: Unsettled, seen: Evidence, verdict: Verdict, now_ms: int) -> Decision:
    """What else `/verify` says. Missing funds count where nothing was sent since that could have used them."""
    reason = verdict.reason or ""
    is_missing = reason == FUNDS_MISSING_NONCE_UNUSED
    was_missing = _was_missing(record) and reason.endswith("_authorization_valid_before")
    if _is_over(record, seen, now_ms) and (is_missing or was_missing):
        return _not_paid(record, FUNDS_MISSING_NONCE_UNUSED)
    return Wait(f"the facilitator says {reason}", funds_missing=is_missing and _is_quiet(record, seen))


def _was_missing(record: Unsettled) -> bool:
    """Whether the funds were last seen missing after the last `/settle`, however far behind that was seen."""
    missing_ms = record.funds_missing_ms
    return missing_ms is not None and missing_ms - MOST_BEHIND_SECONDS * 1000 >= record.last_call_ms


def _is_quiet(record: Unsettled, seen: Evidence) -> bool:
    sent_ms = record.last_call_without_hash_ms
    return sent_ms is None or seen.seconds * 1000 - sent_ms >= QUIET_MS


def _is_over(record: Unsettled, seen: Evidence, now_ms: int) -> bool:
    """Whether the authorization had ended by the chain's time, and by ours."""
    return min(seen.seconds, now_ms // 1000) > record.payment.authorization.valid_before + PROOF_MARGIN_SECONDS


def _not_paid(record: Unsettled, reason: str) -> NotPaid:
    return NotPaid(reason, refused_receipt(record.payment, record.terms, reason))


def _again(record: Unsettled, now_ms: int) -> Decision:
    if now_ms // 1000 + FACILITATOR_MARGIN_SECONDS > record.payment.authorization.valid_before:
        return Wait("the authorization is over; its end on the chain is not proven yet")
    return SettleAgain()


def _success(status: int, document: Mapping[str, Json], payment: Payment, terms: PaymentTerms) -> Paid | Unknown:
    transaction = _transaction(document)
    if payer_differs(document.get("payer"), payment):
        return Unknown("the facilitator names another payer", transaction, alarm="payer_mismatch")
    if document.get("amount") is not None and str(document["amount"]) != str(terms.atomic):
        return Unknown("the facilitator names another amount", transaction, alarm="amount_mismatch")
    if document.get("network") not in (terms.network.caip2, terms.network.name):  # whatever JSON stands there
        return Unknown("the facilitator names another network", transaction)
    if transaction is None:
        return Unknown("success without a usable transaction hash")
    if status == PENDING:
        return Unknown("accepted, not final", transaction)
    return Paid(transaction, paid_receipt(payment, terms, transaction))


def _failure(
    status: int, document: Mapping[str, Json], payment: Payment, terms: PaymentTerms, first: bool
) -> NotPaid | Unknown:
    reason = read_reason(document.get("errorReason"))
    named = document.get("transaction") or None
    if first and named is None and status != PENDING and is_definite(reason):
        return NotPaid(reason, refused_receipt(payment, terms, reason))
    alarm = "nonce_used_on_first_settle" if first and reason.endswith(NONCE_USED) else None
    return Unknown(reason, _transaction(document), alarm)


def _transaction(document: Mapping[str, Json]) -> str | None:
    value = document.get("transaction")
    return value if isinstance(value, str) and TRANSACTION.fullmatch(value) else None
