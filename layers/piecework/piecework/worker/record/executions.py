"""Executions: the one record of what became of a hired contract, moved by conditional writes only.

Every change is a whole new record that replaces the one of the version before, in one transaction with the nonce claim,
the ledger rows and the due time that belong to it. So a record that waits for something always has its due time, and a
runner whose lease was taken over can write nothing. The lease alone is renewed outside of versions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self

from piecework.durable.due import Due
from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.worker.errors import CODES, WorkerError
from piecework.worker.record.states import ENDED, State, advance

LONGEST_LIFE_MS: Final = 86_400_000  # of an unfinished task (4.3)
TASK_DUE: Final = "task"  # kinds of due times
WEBHOOK_DUE: Final = "webhook"
RELEASED_DUE: Final = "released"
RELEASED_MARGIN_SECONDS: Final = 60  # past an authorization's end, for a block's time
DAY_MS: Final = 86_400_000
KEPT_DAYS: Final = 90  # receipts and claims

DELIVERED: Final = frozenset({State.COMPLETED, State.PARTIAL_FINAL})
LAST_REFUSAL: Final = "too many payments for this contract were not taken; it ends here, and nothing was charged"

Item = Mapping[str, Json]  # an output object as it is kept: a file has its `key`, long content its `pointer`
PaymentStatus = Literal[
    "authorized", "settling", "settled", "settled_unconfirmed", "unresolved", "not_charged", "failed"
]
ClaimStatus = Literal["active", "released", "spent"]
LedgerKind = Literal["platform_fee_due", "refund_due"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A JSON text: in the record when it is small, else in the bucket."""

    text: str | None = field(default=None, repr=False)
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed attempt is answered with, the first time and every time after."""

    code: str
    message: str
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def status(self) -> int:
        return CODES[self.code].status

    def to_error(self, execution: "Execution") -> WorkerError:
        """The failure as the door answers it."""
        return WorkerError(
            self.code,
            self.message,
            self.details,
            contract_id=execution.contract_id,
            task_id=execution.task_id,
            retries_remaining=execution.retries_remaining,
        )


def last_refusal(refused: Failure) -> Failure:
    """The failure of a contract whose last payment was refused: an end, which asks for no further one."""
    return Failure("RETRIES_EXHAUSTED", LAST_REFUSAL, refused.details)


@dataclass(frozen=True, slots=True)
class Execution:
    """One contract's execution as it stands; times in epoch milliseconds, 0 for none."""

    contract_id: str
    task_id: str
    state: State
    version: int
    generation: int  # counts inputs: a refused one may be replaced
    attempt: int  # counts starts of the task logic in this generation
    attempts: int
    body_digest: str
    executor: str
    created_at_ms: int
    ends_at_ms: int  # an unfinished task fails then
    input: Kept
    claim_key: str
    payer: str
    valid_before: int  # seconds
    payment: str = field(default="", repr=False)  # the payload, a bearer secret; gone after a final outcome
    payment_version: int = 2
    claim_status: ClaimStatus = "active"
    payment_status: PaymentStatus = "authorized"
    settle_before: bool = False
    longest_ms: int = 0  # that its executor may take, as it was when the terms were made; 0 in older rows
    lease: str = ""
    lease_until_ms: int = 0
    due_ms: int = 0
    started_at_ms: int = 0
    crashes: int = 0  # of this attempt
    result: Kept | None = None
    worked_ms: int = 0
    model: str = ""
    is_partial: bool = False
    settle_calls: int = 0  # under this claim
    is_ambiguous: bool = False  # an earlier settle call of this claim may have charged
    hashes: tuple[str, ...] = ()  # transactions a facilitator named without success
    blind_ms: int = 0  # when the last settle call that named no transaction was sent
    sent_ms: int = 0  # when the last settle call was sent, whatever it named
    funds_missing_ms: int = 0  # when the facilitator last said so with the nonce unused
    looks: int = 0  # at an unknown settlement, or tries to send one
    rounds: int = 0  # settlements that definitely failed
    receipt: Mapping[str, Json] | None = None
    failure: Failure | None = None
    finished_at_ms: int = 0
    has_webhook: bool = False
    keeps_days: int = 0  # how long its end was promised to be readable; 0: as the settings say
    owes_fee: bool = False  # paid before the work, which owes the platform its share once it is delivered
    resolution: Mapping[str, Json] | None = None  # what an operator said of an unknown settlement, and upon what
    items: tuple[Item, ...] = ()  # finished before the end, by the runner that holds or held the lease last

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_paid(self) -> bool:
        return self.payment_status in ("settled", "settled_unconfirmed")

    def kept_until_ms(self, result_days: int) -> int:
        """Until when its end can be read: as was promised when it was recorded, whatever the settings say by now."""
        return self.finished_at_ms + (self.keeps_days or result_days) * DAY_MS

    @property
    def owes_refund(self) -> bool:
        """Whether the seeker paid for work that failed for good."""
        return self.is_paid and self.is_ended and self.state not in DELIVERED

    @property
    def retries_remaining(self) -> int:
        return max(0, self.attempts - self.attempt)

    @property
    def due(self) -> Due | None:
        return Due(self.due_ms, TASK_DUE, self.contract_id) if self.due_ms else None

    @property
    def released_due(self) -> Due:
        """When its payment, released, is looked for on the chain: once it is over, or after a day."""
        over_ms = (self.valid_before + RELEASED_MARGIN_SECONDS) * 1000
        named = f"{self.contract_id}/{self.generation}/{self.valid_before}/{self.claim_key}"
        return Due(min(over_ms, self.created_at_ms + LONGEST_LIFE_MS), RELEASED_DUE, named)

    @property
    def expires_at(self) -> int:
        """When the record may be forgotten, epoch seconds: past every promise, 90 days, and the authorization's end."""
        days = max(KEPT_DAYS, self.keeps_days) + 1
        kept_ms = max(self.created_at_ms, self.finished_at_ms) + days * DAY_MS
        return max(kept_ms // 1000, self.valid_before + 86_400)

    def is_leased(self, now_ms: int) -> bool:
        return self.lease != "" and self.lease_until_ms > now_ms

    def moved(self, target: State, **changes: Any) -> Self:
        """The record one version on, in another state.

        Raises:
            IllegalMove: the state does not lead there.
        """
        return replace(self, state=advance(self.state, target), version=self.version + 1, **changes)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Money that somebody owes somebody, for the operator."""

    kind: LedgerKind
    contract_id: str
    task_id: str
    generation: int
    atomic: int
    network: str
    wallet: str
    at_ms: int
    transaction: str = ""


class Moved(PieceworkError):
    """The record is not as it was read; read it again and decide anew."""

    code = "lease_lost"
    retryable = True

    def __init__(self) -> None:
        super().__init__("the task moved on meanwhile; ask again")


class NonceTaken(WorkerError):
    """The payment's nonce is bound already, to another contract or to an earlier payment of this one."""

    def __init__(self) -> None:
        super().__init__("PAYMENT_ALREADY_USED", "this payment is bound already; sign a new one")


class Executions(Protocol):
    """Keeps executions with their claims, ledger rows and due times."""

    def read(self, contract_id: str) -> Execution | None:
        """The record, strongly consistent."""

    def is_claimed(self, claim_key: str) -> bool:
        """Whether a payment was ever bound to a contract, strongly consistent."""

    def claim(self, before: Execution | None, after: Execution) -> None:
        """Bind `after`'s payment and write the record, in one transaction; `before`'s claim is released, to be watched.

        Raises:
            Moved: the record is not `before` any more.
            NonceTaken: the payment is bound already.
        """

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        """Replace `before`; its due times, its claim's status and the ledger follow in the same transaction.

        Raises:
            Moved: the record is not `before` any more.
        """

    def take_over(self, before: Execution, after: Execution, now_ms: int) -> None:
        """As `move`, if the lease that `before` shows has not been renewed past now. Raises Moved."""

    def renew(self, contract_id: str, lease: str, until_ms: int) -> None:
        """Move the lease on. Raises LeaseLost."""

    def add_item(self, contract_id: str, lease: str, item: Item) -> None:
        """Add a finished item, outside of versions as a renewal. Raises LeaseLost."""

    def owe(self, row: LedgerRow) -> None:
        """Add a row to the ledger; the same row again changes nothing."""

    def ledger(self, month: str) -> list[LedgerRow]:
        """The ledger rows of a month, as in 2026-01, oldest first."""
