"""Counts this process's requests to AWS where ours and botocore's clients send them, so that retries count too."""

import sys
import time
from collections import Counter
from typing import Any

from botocore.httpsession import URLLib3Session

from piecework.aws.transport.caller import Caller, Request
from piecework.aws.transport.connections import Answer

SERVICES = {"DynamoDB": "dynamodb", "AmazonSQS": "sqs"}  # by the first word of the request's target


class Sent:
    """Requests by service since the last reading, new connections of any kind, and S3 requests by method."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.waited = 0.0  # seconds of waiting for answers, over all requests
        send = URLLib3Session.send

        def counted(session: URLLib3Session, request: Any) -> Any:
            self._counts.update(_names(request))
            began = time.perf_counter()
            try:
                return send(session, request)
            finally:
                self.waited += time.perf_counter() - began

        URLLib3Session.send = counted  # type: ignore[assignment,method-assign]
        self._count_ours()
        sys.addaudithook(self._connected)

    def _count_ours(self) -> None:
        sent = Caller.sent

        def counted(caller: Caller, request: Request, invocation: str, retries: int) -> Answer:
            service = request.service
            self._counts.update((service, f"s3 {request.method}") if service == "s3" else (service,))
            began = time.perf_counter()
            try:
                return sent(caller, request, invocation, retries)
            finally:
                self.waited += time.perf_counter() - began

        Caller.sent = counted  # type: ignore[assignment,method-assign]

    def _connected(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "socket.connect":
            self._counts["connections"] += 1

    def take(self) -> Counter[str]:
        """Return the counts, and start again from zero."""
        counts, self._counts = self._counts, Counter()
        return counts


def _names(request: Any) -> tuple[str, ...]:
    target = request.headers.get("X-Amz-Target")
    if target is None:
        return ("s3", f"s3 {request.method}")
    text = target.decode() if isinstance(target, bytes) else str(target)
    return (SERVICES.get(text.partition("_")[0].partition(".")[0], "other"),)
