"""Functions of the runtime door in the test's own process, over stores in memory; answers as API Gateway gets them."""

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

VARIABLES = {
    "AWS_DEFAULT_REGION": "eu-west-1",
    "POWERTOOLS_METRICS_NAMESPACE": "Piecework",
    "PIECEWORK_TABLE": "unused",
    "PIECEWORK_BUCKET": "unused",
}


class Context:
    """A Lambda context with plenty of time."""

    def get_remaining_time_in_millis(self) -> int:
        return 25_000


@dataclass
class Lines:
    """Telemetry that keeps its outcome lines."""

    outcomes: list[Mapping[str, Any]] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)

    def outcome(self, name: str, facts: Mapping[str, Any], counts: Mapping[str, int]) -> None:
        self.outcomes.append(facts)

    def bug(self, name: str) -> None:
        self.bugs.append(name)


@dataclass
class RuntimeFunction:
    """One function of the runtime door."""

    path: str
    handle: Any
    lines: Lines = field(default_factory=Lines)

    def send(self, sent: Any, **members: Any) -> dict[str, Any]:
        """The proxy answer to a body, with its own parsed; `members` change the event."""
        event = {
            "resource": self.path,
            "path": self.path,
            "httpMethod": "POST",
            "headers": {"Content-Type": "application/json"},
            "requestContext": {"authorizer": {"caller": "c"}, "apiId": "api", "stage": "prod"},
            "body": json.dumps(sent),
            "isBase64Encoded": False,
        }
        answer = self.handle({**event, **members}, Context())
        return {**answer, "json": json.loads(answer["body"])}


@contextlib.contextmanager
def runtime_function(name: str, **parts: Any) -> Iterator[RuntimeFunction]:
    """The function `execute`, `verify` or `agent_events`, with parts of its door replaced."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    with mock.patch.dict(os.environ, {**kept, **VARIABLES}, clear=True):
        sys.modules.pop(f"runtime.{name}.app", None)
        module = importlib.import_module(f"runtime.{name}.app")
        made = RuntimeFunction("/" + name.replace("_", "-"), module.handler)
        vars(module.door).update(telemetry=made.lines, **parts)
        yield made
        sys.modules.pop(f"runtime.{name}.app", None)
