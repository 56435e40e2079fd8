"""SQS's operations that we use, in its own words."""

from typing import Any, ClassVar

from piecework.aws.transport.json_client import JsonClient


class SQS(JsonClient):
    """A client for one endpoint."""

    service = "sqs"
    target = "AmazonSQS"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.0", "x-amzn-query-mode": "true"}

    def send_message(self, **given: Any) -> dict[str, Any]:
        """Send one message."""
        return self._called("SendMessage", given)

    def send_message_batch(self, **given: Any) -> dict[str, Any]:
        """Send up to 10 messages, each on its own."""
        return self._called("SendMessageBatch", given)

    def receive_message(self, **given: Any) -> dict[str, Any]:
        """Some messages, hidden from others for a while."""
        return self._called("ReceiveMessage", given)

    def delete_message(self, **given: Any) -> dict[str, Any]:
        """Remove a message that was received."""
        return self._called("DeleteMessage", given)

    def get_queue_attributes(self, **given: Any) -> dict[str, Any]:
        """Numbers of a queue, such as about how many messages it holds."""
        return self._called("GetQueueAttributes", given)
