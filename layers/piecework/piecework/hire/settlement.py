"""What came of a settlement: PAID, NOT SENT, NOT PAID or UNKNOWN, and how UNKNOWN ends (worker specification 2.8).

    classify(settled, payment, terms, first=…) -> Paid | NotSent | NotPaid | Unknown
        `first`: no earlier `/settle` of this claim may have reached the facilitator
    reconcile(record, evidence, now_ms) -> Paid | PaidUnconfirmed | NotPaid | SettleAgain | Wait | Unresolved
        record: Unsettled(payment, terms, hashes, blind_ms, funds_missing_ms, since_ms)
        evidence: ChainEvidence | VerifyEvidence | None
    give_up_ms(record)                             # from here on what is undecided is unresolved
    resend_seconds(tries), look_seconds(looks)     # when to try again after NOT SENT, when to look again at UNKNOWN

Pure decisions: nothing here asks anybody (`piecework.hire.evidence` does). Only positive evidence releases a result,
and only a proof that the authorization did not and cannot pay asks the seeker for another one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from piecework.hire.exchange import Answer, NotSent
from piecework.hire.facilitator import Settled, Verdict, network_name, payer_differs, read_reason
from piecework.hire.payments import Payment
from piecework.hire.terms import PaymentTerms
from piecework.jsons import Json

TRANSACTION: Final = re.compile(r"0x[0-9a-fA-F]{64}")
NOT_ALLOWED: Final = frozenset({401, 403})
PENDING: Final = 202

# Reasons that say the transfer was refused before anything was broadcast.
DEFINITE: Final = frozenset(
    {
        "insufficient_funds",
        "invalid_exact_evm_insufficient_balance",
        "invalid_exact_evm_payload_signature",
        "invalid_scheme",
        "unsupported_scheme",
        "invalid_network",
        "network_mismatch",
        "invalid_payload",
        "invalid_payment_requirements",
        "invalid_x402_version",
        "missing_eip712_domain",
        "asset_not_deployed_contract",
    }
)
DEFINITE_ENDINGS: Final = (
    "_authorization_valid_before",
    "_authorization_valid_after",
    "_value_mismatch",
    "_recipient_mismatch",
    "_token_name_mismatch",
    "_token_version_mismatch",
    "_address_kyt",
)
NONCE_USED: Final = "_nonce_already_used"
# Found by simulating the transfer, in which a token checks the nonce before the balance: the nonce was unused.
FUNDS_MISSING_NONCE_UNUSED: Final = "invalid_exact_evm_insufficient_balance"

GIVE_UP_SECONDS: Final = 600  # after an authorization's end
LONGEST_DOUBT_SECONDS: Final = 2 * 86_400  # from the claim on: the longest task, then the longest usual authorization
PROOF_MARGIN_SECONDS: Final = 60  # after an authorization's end, for clocks that differ
FACILITATOR_MARGIN_SECONDS: Final = 6  # facilitators take no authorization that ends sooner
QUIET_MS: Final = 120_000  # how long a transfer that nobody told us of may take to show on the chain
RESEND_SECONDS: Final = (5, 30, 120, 300)
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


def is_definite(reason: str) -> bool:
    """Whether a reason says that nothing was broadcast."""
    return reason in DEFINITE or (reason.startswith("invalid_exact_evm_") and reason.endswith(DEFINITE_ENDINGS))


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


def look_seconds(looks: int) -> int:
    """How long to wait before the next look at an unknown settlement, after this many (from 0)."""
    return LOOK_SECONDS[min(looks, len(LOOK_SECONDS) - 1)]


def give_up_ms(record: "Unsettled") -> int:
    """From this time on a settlement that is still unknown is unresolved, however long its authorization lives."""
    ends_ms = record.payment.authorization.valid_before * 1000
    if record.since_ms:
        ends_ms = min(ends_ms, record.since_ms + LONGEST_DOUBT_SECONDS * 1000)
    return ends_ms + GIVE_UP_SECONDS * 1000


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A settlement whose outcome is unknown: what was sent, and every hash that any answer named."""

    payment: Payment
    terms: PaymentTerms
    hashes: tuple[str, ...] = ()
    blind_ms: int | None = None  # when the last `/settle` that named no hash was sent
    funds_missing_ms: int | None = None  # when `/verify` last said so with the nonce unused
    since_ms: int = 0  # when the task was claimed: its payer may let an authorization live for years


@dataclass(frozen=True, slots=True)
class ChainEvidence:
    """What a node says of one authorization.

    `paid`: the transaction whose receipt holds our transfer. `pending`, `reverted`: of the reported hashes, those
    without a receipt and those that failed. `chain_seconds`: the time of the block that all this was read at.
    """

    nonce_spent: bool
    chain_seconds: int
    paid: str | None = None
    pending: frozenset[str] = frozenset()
    reverted: frozenset[str] = frozenset()
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class VerifyEvidence:
    """What `/verify` says of the identical payload; the only witness where no node is configured."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class PaidUnconfirmed:
    """The nonce is spent, by all we can see for this payment: release without a receipt, and alarm."""


@dataclass(frozen=True, slots=True)
class SettleAgain:
    """Send `/settle` with the identical payload: the chain takes a nonce once."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be said yet; keep the time of a wait that `funds_missing` in the record."""

    why: str
    funds_missing: bool = False


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Time is up; the result stays withheld until an operator decides."""

    why: str


Decision = Paid | PaidUnconfirmed | NotPaid | SettleAgain | Wait | Unresolved


def reconcile(record: Unsettled, evidence: ChainEvidence | VerifyEvidence | None, now_ms: int) -> Decision:
    """What to do about an unknown settlement, given what could be found out; None when nobody could be asked."""
    if isinstance(evidence, ChainEvidence):
        decision = _by_chain(record, evidence, now_ms)
    elif isinstance(evidence, VerifyEvidence):
        decision = _by_verify(record, evidence.verdict, now_ms)
    else:
        decision = Wait("no witness could be asked")
    if isinstance(decision, Wait | SettleAgain) and now_ms >= give_up_ms(record):
        return Unresolved(decision.why if isinstance(decision, Wait) else "the authorization is unspent and not taken")
    return decision


def _by_chain(record: Unsettled, seen: ChainEvidence, now_ms: int) -> Decision:
    if seen.paid:
        return Paid(seen.paid, paid_receipt(record.payment, record.terms, seen.paid))
    if seen.cancelled:
        return _not_paid(record, "authorization_cancelled")
    if seen.nonce_spent:
        return Wait("the nonce is spent and the transfer is not found yet")
    return _unspent(record, seen, now_ms)


def _unspent(record: Unsettled, seen: ChainEvidence, now_ms: int) -> Decision:
    if _is_over(record, min(seen.chain_seconds, now_ms // 1000)):
        return _not_paid(record, "authorization_expired_unused")
    if seen.pending:
        return Wait("a reported transaction has no receipt yet")
    if record.hashes and seen.reverted >= set(record.hashes):
        if record.blind_ms is not None and now_ms - record.blind_ms < QUIET_MS:
            return Wait("a call without an answer may still show on the chain")
        return _not_paid(record, "transaction_failed")
    return _again(record, now_ms)


def _by_verify(record: Unsettled, verdict: Verdict, now_ms: int) -> Decision:
    if verdict.is_valid:
        return _again(record, now_ms)
    reason = verdict.reason or ""
    if reason.endswith(NONCE_USED):
        return PaidUnconfirmed()
    is_missing = reason == FUNDS_MISSING_NONCE_UNUSED
    was_missing = record.funds_missing_ms is not None and reason.endswith("_authorization_valid_before")
    if _is_over(record, now_ms // 1000) and (is_missing or was_missing):
        return _not_paid(record, FUNDS_MISSING_NONCE_UNUSED)
    is_quiet = record.blind_ms is None or now_ms - record.blind_ms >= QUIET_MS
    return Wait(f"the facilitator says {reason}", funds_missing=is_missing and is_quiet)


def _is_over(record: Unsettled, now_seconds: int) -> bool:
    return now_seconds > record.payment.authorization.valid_before + PROOF_MARGIN_SECONDS


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
    if document.get("network") not in {terms.network.caip2, terms.network.name}:
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
