"""A webhook that nobody takes, try after try, under the rule for chains of messages, on a clock that only moves."""

from dataclasses import dataclass

from local.gateway.lambdas.lineage import admitted
from piecework.webhooks.deliveries import Delivery, Try
from piecework.webhooks.sending import Sender

DELIVERY = Delivery("ctr_1", "evt_1", "https://seeker.example/hook", b"{}")


@dataclass
class Climb:
    """What became of the delivery."""

    tries: int = 0
    invocations: int = 0
    state: str = "pending"


class One:
    """Keeps one delivery."""

    def __init__(self) -> None:
        self.delivery = DELIVERY

    def read(self, owner_id: str, event_id: str) -> Delivery:
        return self.delivery

    def note(self, before: Delivery, after: Delivery) -> None:
        self.delivery = after

    def put(self, delivery: Delivery) -> None: ...

    def stop(self, owner_id: str) -> None: ...

    def is_stopped(self, owner_id: str) -> bool:
        return False


def climb(*, may_loop: bool) -> Climb:
    """Invoke the webhook function for each message that its own invocations send, until there is none."""
    found, kept, now = Climb(), One(), [0]
    waiting: list[tuple[Try, int, str]] = [(Try("ctr_1", "evt_1"), 0, "")]

    def refused(*_: object) -> int:
        found.tries += 1
        return 500

    while waiting:
        wanted, due_ms, header = waiting.pop()
        now[0] = max(now[0], due_ms)
        trace = admitted([header], "WebhookFunction", may_loop=may_loop)
        if trace is None:
            break
        found.invocations += 1

        def ask(following: Try, seconds: int, sent_under: str = trace) -> None:
            waiting.append((following, now[0] + seconds * 1000, sent_under))

        Sender(kept, refused, ask, lambda: now[0], lambda low, high: 1.0).handle(wanted)
    found.state = str(kept.delivery.state)
    return found
