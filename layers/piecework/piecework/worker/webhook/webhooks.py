"""Webhooks: a seeker hears once of each terminal state, signed, until its server has it (worker specification 4.4).

Whoever ends a task, after its payment outcome is final, renders the delivery (`delivery_of`) and hands it over
(`Announcer.announce`), as often as it is not sure to have done so. What is to be sent lies in the work table under
`WEBHOOK#<contract id>`; the message that asks for a try holds ids only. The sender may touch those items and its queue
and nothing else, so a request that went astray could give away no task.

    crash after                    what the redelivered message sees
    -----------------------------  ---------------------------------------------------------------
    the delivery was kept          nobody sent a message yet: announcing again sends it
    the request to the seeker      the same try: sent again with the same webhook-id
    the next try was asked for     the same try: sent again; of two messages for one try the later is stale
    the outcome was noted          a stale message: dropped
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from piecework.chance import uniform
from piecework.errors import BadRequest, PieceworkError
from piecework.jsons import Json, canonical
from piecework.jsons.stored import known
from piecework.net.fetching import Fetched, Fetcher
from piecework.net.http_client import CallFailed
from piecework.reasons import Warn, silent, tell
from piecework.values import asdict, dataclass, field, replace
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.contract.webhook_address import webhook_target

USER_AGENT: Final = "hire-worker/1"
BODY_BYTES: Final = 262_144  # of the request; a longer one goes without its output
CONNECT_SECONDS: Final = 3.0
TOTAL_SECONDS: Final = 10.0
ANSWER_BYTES: Final = 4_096  # read of the answer, and thrown away
LADDER_SECONDS: Final = (10, 60, 300, 900, 3_600, 10_800, 21_600, 43_200)  # waits between tries
JITTER: Final = 0.2
LONGEST_DELAY_SECONDS: Final = 900  # of a queue's delayed message; longer waits pass through the queue more than once
KEPT_SECONDS: Final = 8 * 86_400
MOST_TRIES: Final = 30  # that are kept; a ladder has nine, and an operator may begin it again
GONE: Final = 410
EVENTS: Final[Mapping[str, str]] = {
    "completed": "task_completed",
    "failed": "task_failed",
    "partial": "task_partial",
}


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


Post = Callable[[str, bytes, Mapping[str, str]], int]  # URL, body and headers to the answer's status


@dataclass(frozen=True, slots=True)
class Sender:
    """Makes one try after another until a delivery has ended."""

    deliveries: Deliveries
    post: Post
    ask: Ask
    clock: Callable[[], int]
    spread: Callable[[float, float], float] = uniform
    warn: Warn = silent

    def handle(self, wanted: Try) -> str:
        """Do what a message asks for; returns the outcome.

        `delivered`, `failed` (another try will follow), `given_up` and `stopped` are outcomes of a try; `early` and
        `stale` mean that there was none.
        """
        wait_ms = wanted.not_before_ms - self.clock()
        if wait_ms > 0:
            self.ask(wanted, _delay(wait_ms))
            return "early"
        delivery = self.deliveries.read(wanted.contract_id, wanted.event_id)
        if delivery is None or delivery.state is not DeliveryState.PENDING or wanted.attempt < delivery.attempt:
            return "stale"
        if self.deliveries.is_stopped(delivery.contract_id):
            return self._end(delivery, DeliveryState.STOPPED)
        status = self._send(delivery, wanted.attempt)
        return self._after(delivery.tried(wanted.attempt, status, self.clock()), wanted.attempt, status)

    def _send(self, delivery: Delivery, attempt: int) -> int | None:
        """The answer's status; None when there is none. The seeker learns nothing of why, the operator does."""
        headers = headers_of(delivery, self.clock() // 1000)
        status, reason = None, ""
        try:
            status = self.post(delivery.url, delivery.body, headers)
        except PieceworkError as error:  # refused addresses too
            reason = error.why if isinstance(error, CallFailed) else error.code
        if status is None or not 200 <= status < 300:
            ids = {"contract_id": delivery.contract_id, "event_id": delivery.event_id, "attempt": attempt}
            tell(self.warn, "webhook", status=status, reason=reason, **ids)
        return status

    def _after(self, delivery: Delivery, attempt: int, status: int | None) -> str:
        if status is not None and 200 <= status < 300:
            return self._end(delivery, DeliveryState.DELIVERED)
        if status == GONE:
            self.deliveries.stop(delivery.contract_id)
            return self._end(delivery, DeliveryState.STOPPED)
        if attempt > len(LADDER_SECONDS):
            return self._end(delivery, DeliveryState.GIVEN_UP)
        wait_ms = int(LADDER_SECONDS[attempt - 1] * 1000 * self.spread(1 - JITTER, 1 + JITTER))
        following = Try(delivery.contract_id, delivery.event_id, attempt + 1, self.clock() + wait_ms)
        self.ask(following, _delay(wait_ms))  # asked for before it is noted: a crash between repeats a try, loses none
        self.deliveries.note(delivery, replace(delivery, attempt=attempt + 1))
        return "failed"

    def _end(self, delivery: Delivery, state: DeliveryState) -> str:
        self.deliveries.note(delivery, replace(delivery, state=state))
        return str(state)


class SafePost:
    """Posts to public hosts only: static rules and a fresh look at the name's addresses at every try."""

    def __init__(self, fetcher: Fetcher | None = None, check: Callable[[str], object] = webhook_target) -> None:
        self._fetcher = fetcher or Fetcher(
            timeout_seconds=TOTAL_SECONDS, connect_seconds=CONNECT_SECONDS, body_limit=ANSWER_BYTES
        )
        self._check = check

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self._check(url)
        answer: Fetched = self._fetcher.request("POST", url, body, headers, cut=True)
        return answer.status


def delivery_of(
    contract: ContractRecord, body: Mapping[str, Json], *, generation: int, occurred_at_ms: int, poll_url: str
) -> Delivery | None:
    """The delivery of a final body (1.5), or None when the contract names no webhook."""
    if contract.webhook_url is None:
        return None
    event_id = event_id_of(str(body["task_id"]), generation, str(body["status"]))
    told: dict[str, Json] = {
        "deliverables": [],
        **body,
        "event": EVENTS[str(body["status"])],
        "event_id": event_id,
        "occurred_at": datetime.fromtimestamp(occurred_at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "poll_url": poll_url,
    }
    return Delivery(contract.contract_id, event_id, contract.webhook_url, bounded(told), contract.webhook_secret)


def event_id_of(task_id: str, generation: int, status: str) -> str:
    """The same for the same terminal state, so that announcing twice is one event."""
    return f"evt_{hashlib.sha256(f'{task_id}/{generation}/{status}'.encode()).hexdigest()[:32]}"


def bounded(told: Mapping[str, Json]) -> bytes:
    """The event as JSON; without its output, and in the end without its details, where it would be too long."""
    droppable = ("output", "error", "deliverables")
    for dropped in range(len(droppable) + 1):
        kept = {name: value for name, value in told.items() if name not in droppable[:dropped]}
        shortened: dict[str, Json] = {"truncated": True} | ({"deliverables": []} if dropped == len(droppable) else {})
        text = canonical(kept | (shortened if dropped else {}))
        if len(text) <= BODY_BYTES:
            break
    return text


def headers_of(delivery: Delivery, timestamp: int) -> dict[str, str]:
    """The request's headers; without a secret there is no signature."""
    from standardwebhooks import Webhook  # the sender's alone: other functions only hand over

    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(timestamp),
    }
    if delivery.secret:
        moment = datetime.fromtimestamp(timestamp, UTC)
        text = delivery.body.decode("utf-8")
        headers["webhook-signature"] = Webhook(delivery.secret).sign(delivery.event_id, moment, text)
    return headers


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


def _delay(wait_ms: int) -> int:
    return min(LONGEST_DELAY_SECONDS, -(-wait_ms // 1000))
