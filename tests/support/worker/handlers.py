"""Handlers of the worker door in the test's own process, over the embedded AWS; answers as a client sees them."""

import base64
import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from unittest import mock

from piecework.jsons import Json
from tests.support.worker.contracts import WORKER_AGENT_ID, WORKER_WALLET

PUBLIC_BASE_URL = "https://w.example/hire"
EMULATED_KEY = "arn:aws:kms:us-east-1:000000000000:key/tests"  # the emulator takes no KMS write without a key's name
VARIABLES = {
    "PUBLIC_BASE_URL": PUBLIC_BASE_URL,
    "WORKER_WALLETS": WORKER_WALLET,
    "WORKER_AGENT_ID": WORKER_AGENT_ID,
    "BASE_CHAIN_SEEN": "true",
    "POWERTOOLS_METRICS_NAMESPACE": "Piecework",
}

PLACES = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "FACILITATOR_URL": "https://facilitator.example",
    **{f"PIECEWORK_{name}": "unused" for name in ("CONTRACTS_TABLE", "WORK_TABLE", "DUE_TABLE", "BUCKET")},
    **{f"PIECEWORK_{name}_QUEUE_URL": "unused" for name in ("TASK", "DUE", "WEBHOOK")},
}


@dataclass
class Answer:
    """A proxy answer."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Json:
        return json.loads(self.text)


class Context:
    """A Lambda context with plenty of time."""

    def get_remaining_time_in_millis(self) -> int:
        return 25_000


@dataclass
class Handler:
    """One function of the worker door."""

    handle: Callable[[dict[str, Json], Context], dict[str, Json]]

    def __call__(
        self,
        method: str,
        path: str,
        body: Json | bytes = None,
        *,
        resource: str | None = None,
        params: dict[str, str] | None = None,
        headers: dict[str, list[str]] | None = None,
        source: str = "127.0.0.1",
        context: dict[str, Json] | None = None,
    ) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        event = {
            "httpMethod": method,
            "resource": resource or path,
            "path": path,
            "pathParameters": params,
            "multiValueHeaders": {"Content-Type": ["application/json"], **(headers or {})},
            "requestContext": {"identity": {"sourceIp": source}, **(context or {})},
            "body": base64.b64encode(raw).decode(),
            "isBase64Encoded": True,
        }
        answer = self.handle(event, Context())
        return Answer(answer["statusCode"], answer["headers"], answer["body"])


@contextlib.contextmanager
def handler(module: str, aws_variables: dict[str, str], **variables: str) -> Iterator[Handler]:
    """The handler of a function's module, imported anew under these variables, without the developer's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    with mock.patch.dict(os.environ, {**kept, **VARIABLES, **aws_variables, **variables}, clear=True):
        sys.modules.pop(module, None)
        yield Handler(importlib.import_module(module).handler)


@contextlib.contextmanager
def worker_function(name: str, **parts: object) -> Iterator[ModuleType]:
    """The module of a function, imported anew; `parts` take the place of its door's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    with mock.patch.dict(os.environ, {**kept, **VARIABLES, **PLACES}, clear=True):
        sys.modules.pop(f"worker.{name}.app", None)
        module = importlib.import_module(f"worker.{name}.app")
        vars(module.door).update(parts)
        yield module
        sys.modules.pop(f"worker.{name}.app", None)
