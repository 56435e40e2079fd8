"""Dead letters in SQS, and webhooks in the doors' tables, as an operator's verbs reach them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.aws.failing import aws_errors
from piecework.aws.queues import Queue
from piecework.errors import NotFound
from piecework.ops.verbs import Hooks, Letter, Letters
from piecework.webhooks.deliveries import Ask, DeliveryState, Try, asking_on
from piecework.webhooks.store import DeliveriesTable

if TYPE_CHECKING:
    from piecework.aws.transport.sqs import SQS

THE_QUEUE: Final = "the queue"
WAIT_SECONDS: Final = 1  # with a wait SQS asks all of its servers, without one it may miss letters


class LettersQueue(Letters):
    """The dead letters of one queue."""

    def __init__(self, sqs: Callable[[], SQS], url: str, dead_letters_url: str) -> None:
        self._sqs, self._url, self._dead_letters_url = sqs, url, dead_letters_url

    def take(self, most: int, *, hidden_seconds: int) -> list[Letter]:
        with aws_errors(THE_QUEUE):
            answer = self._sqs().receive_message(
                QueueUrl=self._dead_letters_url,
                MaxNumberOfMessages=most,
                VisibilityTimeout=hidden_seconds,
                WaitTimeSeconds=WAIT_SECONDS,
                AttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
            )
        return [_letter(message) for message in answer.get("Messages", [])]

    def put_back(self, letter: Letter) -> None:
        with aws_errors(THE_QUEUE):
            self._sqs().send_message(QueueUrl=self._url, MessageBody=letter.body)
            self._sqs().delete_message(QueueUrl=self._dead_letters_url, ReceiptHandle=letter.receipt)


class KeptHooks(Hooks):
    """Webhooks in a door's table."""

    def __init__(self, deliveries: DeliveriesTable, ask: Ask) -> None:
        self._deliveries, self._ask = deliveries, ask

    def resend(self, owner_id: str, event_id: str) -> str:
        found = self._deliveries.read(owner_id, event_id)
        if found is None:
            raise NotFound("this webhook is not kept; deliveries are kept for 8 days")
        if found.state is DeliveryState.STOPPED or self._deliveries.is_stopped(owner_id):
            return str(DeliveryState.STOPPED)
        attempt = found.attempt if found.state is DeliveryState.PENDING else 1
        if found.state is not DeliveryState.PENDING:
            self._deliveries.restart(found)
        self._ask(Try(owner_id, event_id, attempt), 0)
        return str(found.state)


def kept_hooks(deliveries: DeliveriesTable, sqs: Callable[[], SQS], url: str, owner: str) -> KeptHooks:
    """Webhooks whose tries are asked for on a queue; `owner` is what its messages call whose they are."""
    return KeptHooks(deliveries, asking_on(Queue(sqs, url), owner))


def _letter(message: dict[str, object]) -> Letter:
    attributes = message.get("Attributes")
    numbers = attributes if isinstance(attributes, dict) else {}
    return Letter(
        message_id=str(message["MessageId"]),
        body=str(message["Body"]),
        sent_at_ms=int(numbers.get("SentTimestamp", 0)),
        receives=int(numbers.get("ApproximateReceiveCount", 0)),
        receipt=str(message["ReceiptHandle"]),
    )
