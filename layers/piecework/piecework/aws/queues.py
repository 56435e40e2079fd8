"""Queues, for messages that hold ids only, at once or delayed; and topics, for messages to people and their tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.failing import aws_errors
from piecework.jsons import Json, canonical

if TYPE_CHECKING:
    from piecework.aws.transport.sns import SNS
    from piecework.aws.transport.sqs import SQS

LONGEST_DELAY_SECONDS: Final = 900  # SQS's own limit
DEPTH: Final = (  # SQS's names for about how many messages wait, are being worked on, and are delayed
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
THE_QUEUE: Final = "the queue"
THE_TOPIC: Final = "the topic"


class Queue:
    """One SQS queue to send to and to look at; the client is made with the first call."""

    def __init__(self, sqs: Callable[[], SQS], url: str) -> None:
        self._sqs = sqs
        self._url = url

    def send(self, message: Mapping[str, Json], delay_ms: int = 0) -> None:
        """Send a message; a longer delay than the queue can hold is cut, since messages are only early looks."""
        seconds = min(max(0, -(-delay_ms // 1000)), LONGEST_DELAY_SECONDS)
        with aws_errors(THE_QUEUE):
            self._sqs().send_message(
                QueueUrl=self._url, MessageBody=canonical(dict(message)).decode(), DelaySeconds=seconds
            )

    def send_all(self, messages: Sequence[Mapping[str, Json]]) -> int:
        """Send up to 10 messages in one request; how many of them the queue did not take."""
        entries: Any = [
            {"Id": str(number), "MessageBody": canonical(dict(message)).decode()}
            for number, message in enumerate(messages)
        ]
        with aws_errors(THE_QUEUE):
            answer = self._sqs().send_message_batch(QueueUrl=self._url, Entries=entries)
        return len(answer.get("Failed", []))

    def depth(self) -> tuple[int, int, int]:
        """About how many messages wait, are being worked on, and are delayed."""
        with aws_errors(THE_QUEUE):
            answer = self._sqs().get_queue_attributes(QueueUrl=self._url, AttributeNames=list(DEPTH))
        waiting, in_flight, delayed = (int(answer.get("Attributes", {}).get(name, 0)) for name in DEPTH)
        return waiting, in_flight, delayed


class Topic:
    """One SNS topic to publish to; the client is made with the first call."""

    def __init__(self, sns: Callable[[], SNS], arn: str) -> None:
        self._sns, self._arn = sns, arn

    def publish(self, subject: str, message: Mapping[str, Json], attributes: Mapping[str, str]) -> None:
        """Publish a message; subscriptions can be filtered by its attributes.

        Raises:
            RequestRejected: the topic will never take it, or is not there.
            Unavailable: a repeat can help.
        """
        told: Any = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
        with aws_errors(THE_TOPIC):
            self._sns().publish(
                TopicArn=self._arn,
                Message=canonical(dict(message)).decode(),
                Subject=subject,
                MessageAttributes=told,
            )
