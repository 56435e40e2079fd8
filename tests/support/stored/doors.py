"""Functions of this release over a stack of rows, in the test's own process: proxy events in, answers out."""

import base64
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from tests.support.kernel.functions import VARIABLES, kernel_function
from tests.support.ops.requests import an_event
from tests.support.stored.stack import OldStack

SECRET = "correct-horse-battery"  # of the operator's door; the kernel door asks for none


class Answer(NamedTuple):
    """The status and the body, read from JSON."""

    status: int
    body: Any


class Context:
    """The Lambda context."""

    function_name = "function"
    memory_limit_in_mb = 1769
    invoked_function_arn = "arn:aws:lambda:eu-west-1:000000000000:function:function"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 20_000


class Asking:
    """A client of handlers by method."""

    def __init__(self, reads: Callable[..., Any], writes: Callable[..., Any]) -> None:
        self._reads, self._writes = reads, writes

    def get(self, path: str, **query: str) -> Answer:
        """What a GET is answered."""
        several = {name: [value] for name, value in query.items()}
        return _answer(self._reads(_event(path, queryStringParameters=query, multiValueQueryStringParameters=several)))

    def post(self, path: str, body: Any) -> Answer:
        """What a POST is answered."""
        return _answer(self._writes(_event(path, method="POST", body=json.dumps(body))))


@contextmanager
def kernel_door(stack: OldStack, clock: Callable[[], int]) -> Iterator[Asking]:
    """The kernel door; every tool call is allowed, and every caller may do everything."""
    settings = {**stack.settings, "PIECEWORK_POLICY_DEFAULT": "permissive"}
    with mock.patch("piecework.kernel.wiring.now_in_ms", clock), kernel_function("http", settings) as http:
        handler = _with_context(http.handler)
        yield Asking(handler, handler)


@contextmanager
def ops_door(stack: OldStack, clock: Callable[[], int], **settings: str) -> Iterator[Asking]:
    """The operator's door, both of its functions, as the token `ann` sees it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    env = {**kept, **VARIABLES, **stack.settings, "PIECEWORK_OPS_TOKENS": f"ann={SECRET}", **settings}
    names = [f"ops.{name}.app" for name in ("reading", "writing")]
    with mock.patch("piecework.clock.now_in_ms", clock), mock.patch.dict(os.environ, env, clear=True):
        for name in names:
            sys.modules.pop(name, None)
        reading, writing = map(importlib.import_module, names)
        yield Asking(_with_context(reading.handler), _with_context(writing.handler))
        for name in names:
            sys.modules.pop(name, None)


def _with_context(handler: Callable[..., Any]) -> Callable[..., Any]:
    return lambda event: handler(event, Context())


def _event(path: str, **members: Any) -> dict[str, Any]:
    place = {"requestId": "r", "path": path, "stage": "v1", "identity": {"sourceIp": "192.0.2.1"}}
    headers = {"Host": "door.example", "Content-Type": "application/json", "Authorization": f"Bearer {SECRET}"}
    return an_event(path, **members) | {"path": path, "headers": headers, "requestContext": place}


def _answer(found: dict[str, Any]) -> Answer:
    body = base64.b64decode(found["body"]) if found["isBase64Encoded"] else found["body"]
    return Answer(found["statusCode"], json.loads(body))
