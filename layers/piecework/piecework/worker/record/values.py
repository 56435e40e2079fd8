"""The five values of an execution's record: the bound payment, its settlement, the lease, the attempt, the outcome."""

from collections.abc import Mapping
from typing import Final, Literal, Self

from piecework.jsons import Json
from piecework.values import dataclass, field, replace
from piecework.worker.errors import CODES

NOT_BEGUN: Final = "the payment was not taken, so the work has not begun; sign a new one to have it done"
LAST_REFUSAL: Final = "too many payments for this contract were not taken; it ends here, and nothing was charged"

Item = Mapping[str, Json]  # an output object as it is kept: a file has its `key`, long content its `pointer`
PaymentStatus = Literal[
    "authorized", "settling", "settled", "settled_unconfirmed", "unresolved", "not_charged", "failed"
]
ClaimStatus = Literal["active", "released", "spent"]


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


def last_refusal(refused: Failure) -> Failure:
    """The failure of a contract whose last payment was refused: it is final and does not ask for another payment."""
    return Failure("RETRIES_EXHAUSTED", LAST_REFUSAL, refused.details)


@dataclass(frozen=True, slots=True)
class BoundPayment:
    """The payment that is bound to an execution, under the claim on what it can spend once."""

    claim_key: str
    payer: str
    valid_before: int  # seconds
    document: str = field(default="", repr=False)  # the payload, a bearer secret; gone after a final outcome
    version: int = 2
    claim_status: ClaimStatus = "active"
    atomic: int | None = None  # what it authorizes; None in records that began under earlier code

    def spent(self) -> Self:
        """Taken: nothing else can be charged under it."""
        return replace(self, document="", claim_status="spent")

    def released(self) -> Self:
        """Not taken, and never sent again by us."""
        return replace(self, document="", claim_status="released")


@dataclass(frozen=True, slots=True)
class Settlement:
    """How far the charge of the bound payment is; times in epoch milliseconds, 0 for none."""

    status: PaymentStatus = "authorized"
    calls: int = 0  # of `/settle`, under this claim
    is_ambiguous: bool = False  # an earlier settle call of this claim may have charged
    hashes: tuple[str, ...] = ()  # transactions a facilitator named without success
    last_call_without_hash_ms: int = 0  # when the last settle call that named no transaction was sent
    last_call_ms: int = 0  # when the last settle call was sent, whatever it named
    funds_missing_ms: int = 0  # when the facilitator last said so with the nonce unused
    looks: int = 0  # at an unknown settlement, or tries to send one
    receipt: Mapping[str, Json] | None = None
    refusals: int = 0  # settlements of this contract that definitely failed, under any claim
    owes_fee: bool = False  # paid before the work, which owes the platform its share once it is delivered
    resolution: Mapping[str, Json] | None = None  # what an operator said of an unknown settlement, and upon what
    refund: Mapping[str, Json] | None = None  # what an operator said of the payment that was owed back

    @property
    def is_paid(self) -> bool:
        return self.status in ("settled", "settled_unconfirmed")

    def of_new_payment(self) -> "Settlement":
        """Where another payment has just been bound: only what counts for the whole contract is kept."""
        return Settlement(refusals=self.refusals, owes_fee=self.owes_fee, resolution=self.resolution)

    def called(self, now_ms: int) -> Self:
        """With one more `/settle` on its way, which has named no transaction yet."""
        return replace(
            self, status="settling", calls=self.calls + 1, last_call_without_hash_ms=now_ms, last_call_ms=now_ms
        )

    def named(self, transaction: str, before: "Settlement") -> Self:
        """After an answer to a call that named this transaction; `before` it was sent."""
        hashes = self.hashes if transaction in self.hashes else (*self.hashes, transaction)
        return replace(self, hashes=hashes, last_call_without_hash_ms=before.last_call_without_hash_ms)

    def not_sent(self, before: "Settlement") -> Self:
        """After a call that reached nobody: the times of the calls are as `before` it."""
        last, without_hash = before.last_call_ms, before.last_call_without_hash_ms
        return replace(self, last_call_ms=last, last_call_without_hash_ms=without_hash)


NOT_SETTLED: Final = Settlement()


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may work on the record, or settle it, and until when."""

    token: str = ""
    until_ms: int = 0

    def holds(self, now_ms: int) -> bool:
        """Whether nobody else may take the record now."""
        return self.token != "" and self.until_ms > now_ms


NO_LEASE: Final = Lease()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt at the work is under way, or was the last."""

    number: int  # counts starts of the task logic in this generation
    most: int  # attempts that the contract allows
    started_at_ms: int = 0  # 0 until a runner has begun
    crashes: int = 0  # runs of this attempt that were lost
    items: tuple[Item, ...] = ()  # finished before the end, by the runner that holds or held the lease last

    def next(self) -> "Attempt":
        """The one after this, which nobody has begun."""
        return replace(self, number=self.number + 1, crashes=0)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of the work."""

    result: Kept | None = None
    worked_ms: int = 0
    model: str = ""
    is_partial: bool = False
    failure: Failure | None = None
    finished_at_ms: int = 0
    keeps_days: int = 0  # how long its end was promised to be readable; 0: as the settings say


NO_OUTCOME: Final = TaskOutcome()
