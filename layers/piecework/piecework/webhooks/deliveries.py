"""Deliveries of webhooks, the tries that are asked for, and who hands a delivery over to the sender."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from piecework.errors import BadRequest
from piecework.jsons import Json
from piecework.jsons.stored import known
from piecework.values import asdict, dataclass, field, replace

KEPT_SECONDS: Final = 8 * 86_400
MOST_TRIES: Final = 30  # that are kept; a ladder has nine, and an operator may begin it again


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"
    STOPPED = "stopped"  # the seeker's server said 410


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one seeker; `attempt` is the try that comes next, `tries` are those that were made."""

    contract_id: str
    event_id: str
    url: str
    body: bytes = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    state: DeliveryState = DeliveryState.PENDING
    attempt: int = 1
    tries: tuple["Made", ...] = ()  # the last of them; none in rows of earlier code

    def tried(self, attempt: int, status: int | None, at_ms: int) -> "Delivery":
        """With one more try, and its answer's status if it had one."""
        return replace(self, tries=(*self.tries, Made(attempt, status, at_ms))[-MOST_TRIES:])


class Made(NamedTuple):
    """A try that was made: its number, the status of the answer, or None without one, and when it ended."""

    attempt: int
    status: int | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Try:
    """The message that asks for one try, not before a time."""

    contract_id: str
    event_id: str
    attempt: int = 1
    not_before_ms: int = 0


class Deliveries(Protocol):
    """Keeps deliveries, and which contracts want no more of them."""

    def put(self, delivery: Delivery) -> None:
        """Keep a delivery, unless it is kept already."""

    def read(self, contract_id: str, event_id: str) -> Delivery | None:
        """The delivery, strongly consistent."""

    def note(self, before: Delivery, after: Delivery) -> None:
        """Replace what `before` shows; nothing happens when another try was faster."""

    def stop(self, contract_id: str) -> None:
        """Remember that this contract's seeker wants no more webhooks."""

    def is_stopped(self, contract_id: str) -> bool: ...


Ask = Callable[[Try, int], None]  # a try, and the seconds until then


@dataclass(frozen=True, slots=True)
class Announcer:
    """Hands finished tasks over to the sender."""

    deliveries: Deliveries
    ask: Ask

    def announce(self, delivery: Delivery | None) -> None:
        """Keep the delivery, if there is one, and ask for its first try; again is harmless."""
        if delivery is not None:
            self.deliveries.put(delivery)
            self.ask(Try(delivery.contract_id, delivery.event_id), 0)


def message_of(wanted: Try) -> dict[str, Json]:
    """The message that asks for a try: ids only."""
    return asdict(wanted)


def try_of(message: Json) -> Try:
    """The try that a message asks for.

    Raises:
        BadRequest: it is not such a message.
    """
    try:
        return known(Try, message)
    except (TypeError, AttributeError) as error:
        raise BadRequest("this message asks for no try") from error
