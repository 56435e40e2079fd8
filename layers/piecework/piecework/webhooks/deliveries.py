"""Deliveries of webhooks, the tries that are asked for, and who hands a delivery over to the sender."""

from collections.abc import Callable, Mapping
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
    STOPPED = "stopped"  # the receiver said 410


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one receiver; `attempt` is the try that comes next, `tries` are those that were made."""

    owner_id: str  # whose event it is: a contract's, an execution's
    event_id: str
    url: str  # empty: the sender knows it, and the secret, by `name`
    body: bytes = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    state: DeliveryState = DeliveryState.PENDING
    attempt: int = 1
    tries: tuple["Made", ...] = ()  # the last of them; none in rows of earlier code
    name: str = ""

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

    owner_id: str
    event_id: str
    attempt: int = 1
    not_before_ms: int = 0


class Deliveries(Protocol):
    """Keeps deliveries, and whose receivers want no more of them."""

    def put(self, delivery: Delivery) -> None:
        """Keep a delivery, unless it is kept already."""

    def read(self, owner_id: str, event_id: str) -> Delivery | None:
        """The delivery, strongly consistent."""

    def note(self, before: Delivery, after: Delivery) -> None:
        """Replace what `before` shows; nothing happens when another try was faster."""

    def stop(self, owner_id: str) -> None:
        """Remember that the receiver wants no more webhooks of this owner."""

    def is_stopped(self, owner_id: str) -> bool: ...


Ask = Callable[[Try, int], None]  # a try, and the seconds until then


@dataclass(frozen=True, slots=True)
class Announcer:
    """Hands deliveries over to the sender."""

    deliveries: Deliveries
    ask: Ask

    def announce(self, delivery: Delivery | None) -> None:
        """Keep the delivery, if there is one, and ask for its first try; again is harmless."""
        if delivery is not None:
            self.deliveries.put(delivery)
            self.ask(Try(delivery.owner_id, delivery.event_id), 0)


class TryQueue(Protocol):
    """A queue of tries."""

    def send(self, message: Mapping[str, Json], delay_ms: int) -> None: ...


def asking_on(queue: TryQueue, owner: str) -> Ask:
    """Asks for tries on a queue; `owner` as in `message_of`."""

    def ask(wanted: Try, seconds: int) -> None:
        queue.send(message_of(wanted, owner), seconds * 1000)

    return ask


def message_of(wanted: Try, owner: str) -> dict[str, Json]:
    """The message that asks for a try: ids only. `owner` is the member with the owner's id, such as `contract_id`."""
    told = asdict(wanted)
    return {owner: told.pop("owner_id"), **told}


def try_of(message: Json, owner: str) -> Try:
    """The try that a message asks for; `owner` as in `message_of`.

    Raises:
        BadRequest: it is not such a message.
    """
    try:
        told = dict(message) if isinstance(message, dict) else {}
        return known(Try, {**told, "owner_id": told[owner]})
    except (KeyError, TypeError) as error:
        raise BadRequest("this message asks for no try") from error
