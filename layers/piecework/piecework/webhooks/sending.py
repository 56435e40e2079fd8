"""The sender of webhooks: one try after another, signed, to public hosts only.

The message that asks for a try holds ids only. The sender may touch deliveries and its queue and nothing else, so a
request that went astray could give away no task.

    crash after                    what the redelivered message sees
    -----------------------------  ---------------------------------------------------------------
    the delivery was kept          nobody sent a message yet: announcing again sends it
    the request to the receiver    the same try: sent again with the same webhook-id
    the next try was asked for     the same try: sent again; of two messages for one try the later is stale
    the outcome was noted          a stale message: dropped
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from piecework.chance import uniform
from piecework.errors import PieceworkError
from piecework.net.fetching import Fetched, Fetcher
from piecework.net.http_client import CallFailed
from piecework.reasons import Warn, silent, tell
from piecework.values import dataclass, replace
from piecework.webhooks.addresses import webhook_target
from piecework.webhooks.deliveries import Ask, Deliveries, Delivery, DeliveryState, Try

CONNECT_SECONDS: Final = 3.0
TOTAL_SECONDS: Final = 10.0
ANSWER_BYTES: Final = 4_096  # read of the answer, and thrown away
LADDER_SECONDS: Final = (10, 60, 300, 900, 3_600, 10_800, 21_600, 43_200)  # waits between tries
JITTER: Final = 0.2
LONGEST_DELAY_SECONDS: Final = 900  # of a queue's delayed message; longer waits pass through the queue more than once
GONE: Final = 410

Post = Callable[[str, bytes, Mapping[str, str]], int]  # URL, body and headers to the answer's status


def as_kept(delivery: Delivery) -> Delivery:
    """A delivery that holds its own URL and secret."""
    return delivery


@dataclass(frozen=True, slots=True)
class Sender:
    """Makes one try after another until a delivery has ended."""

    deliveries: Deliveries
    post: Post
    ask: Ask
    clock: Callable[[], int]
    spread: Callable[[float, float], float] = uniform
    warn: Warn = silent
    owner: str = "owner_id"  # what the id of a delivery's owner is called in the log
    user_agent: str = "piecework"
    addressed: Callable[[Delivery], Delivery] = as_kept  # gives a delivery its URL and secret; may raise

    def handle(self, wanted: Try) -> str:
        """Do what a message asks for; returns the outcome.

        `delivered`, `failed` (another try will follow), `given_up` and `stopped` are outcomes of a try; `early` and
        `stale` mean that nothing was sent.

        Raises:
            PieceworkError: the delivery has no address, or a store or the queue is out of reach; repeat the message.
        """
        wait_ms = wanted.not_before_ms - self.clock()
        if wait_ms > 0:
            self.ask(wanted, _delay(wait_ms))
            return "early"
        delivery = self.deliveries.read(wanted.owner_id, wanted.event_id)
        if delivery is None or delivery.state is not DeliveryState.PENDING or wanted.attempt < delivery.attempt:
            return "stale"
        if self.deliveries.is_stopped(delivery.owner_id):
            return self._end(delivery, DeliveryState.STOPPED)
        status = self._send(self.addressed(delivery), wanted.attempt)
        return self._after(delivery.tried(wanted.attempt, status, self.clock()), wanted.attempt, status)

    def _send(self, delivery: Delivery, attempt: int) -> int | None:
        """The answer's status; None without an answer. The log tells the operator why; the receiver is not told."""
        headers = headers_of(delivery, self.clock() // 1000, self.user_agent)
        status, reason = None, ""
        try:
            status = self.post(delivery.url, delivery.body, headers)
        except PieceworkError as error:  # refused addresses too
            reason = error.why if isinstance(error, CallFailed) else error.code
        if status is None or not 200 <= status < 300:
            ids = {self.owner: delivery.owner_id, "event_id": delivery.event_id, "attempt": attempt}
            tell(self.warn, "webhook", status=status, reason=reason, **ids)
        return status

    def _after(self, delivery: Delivery, attempt: int, status: int | None) -> str:
        if status is not None and 200 <= status < 300:
            return self._end(delivery, DeliveryState.DELIVERED)
        if status == GONE:
            self.deliveries.stop(delivery.owner_id)
            return self._end(delivery, DeliveryState.STOPPED)
        if attempt > len(LADDER_SECONDS):
            return self._end(delivery, DeliveryState.GIVEN_UP)
        wait_ms = int(LADDER_SECONDS[attempt - 1] * 1000 * self.spread(1 - JITTER, 1 + JITTER))
        following = Try(delivery.owner_id, delivery.event_id, attempt + 1, self.clock() + wait_ms)
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


def headers_of(delivery: Delivery, timestamp: int, user_agent: str) -> dict[str, str]:
    """The request's headers; without a secret they have no signature."""
    from standardwebhooks import Webhook  # the sender's alone: other functions only hand over

    headers = {
        "Content-Type": "application/json",
        "User-Agent": user_agent,
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(timestamp),
    }
    if delivery.secret:
        moment = datetime.fromtimestamp(timestamp, UTC)
        text = delivery.body.decode("utf-8")
        headers["webhook-signature"] = Webhook(delivery.secret).sign(delivery.event_id, moment, text)
    return headers


def _delay(wait_ms: int) -> int:
    return min(LONGEST_DELAY_SECONDS, -(-wait_ms // 1000))
