"""A message that cannot be read, or that a newer version has sent, holds up no other, at any function with a queue."""

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.edge.batches import handled
from piecework.errors import Unavailable
from tests.support.fakes import START_MS
from tests.support.kernel.functions import kernel_function
from tests.support.worker.handlers import worker_function

WORKER = ("worker.due.app", "worker.task.app", "worker.webhook.app")
KERNEL = ("kernel.due.app", "kernel.hosted.app", "kernel.notices.app", "kernel.webhooks.app")
GOOD = {
    "worker.due.app": {"kind": "task", "contract_id": "ctr_a", "due_ms": START_MS},
    "kernel.due.app": {"kind": "kernel", "id": "an execution", "due_ms": START_MS},
    "kernel.hosted.app": {"execution_id": "an execution"},
    "kernel.notices.app": {"kind": "kernel-notice", "id": "needed.e.s", "due_ms": START_MS},
    "kernel.webhooks.app": {"execution_id": "an execution", "event_id": "n", "attempt": 1},
    "worker.task.app": {"kind": "task", "contract_id": "ctr_a", "due_ms": START_MS},
    "worker.webhook.app": {"contract_id": "ctr_a", "event_id": "evt", "attempt": 1},
}
POISON = ["{}", "[]", "null", "not json", '{"kind": 7}', '"text"', "\ud800", '{"due_ms": "soon", "kind": "task"}']
LATER = '{"kind": "of-a-later-version", "contract_id": "ctr_a", "id": "x", "due_ms": 1767600000000}'
CONTEXT = SimpleNamespace(get_remaining_time_in_millis=lambda: 900_000)


class Telemetry:
    """Keeps how often a message failed."""

    def __init__(self) -> None:
        self.bugs = 0

    def bug(self, where: str) -> None:
        self.bugs += 1

    def outcome(self, *told: Any) -> None:
        """Said, and not looked at."""


class Function:
    """One function over a wiring that only notes what it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.seen, self.telemetry = list[str](), Telemetry()
        self.app = self._of_kernel(name) if name in KERNEL else self._of_worker(name)

    def _of_kernel(self, name: str) -> Any:
        parts = {
            "liveness": SimpleNamespace(check=lambda due: self.seen.append(due.id)),
            "notices": SimpleNamespace(tell=lambda due: self.seen.append(due.id)),
            "sender": SimpleNamespace(handle=lambda wanted: self.seen.append(wanted.owner_id)),
            "hosted": SimpleNamespace(run_turn=lambda execution_id, until_ms: self.seen.append(execution_id)),
        }
        with kernel_function(name.split(".")[1], clock=lambda: START_MS, telemetry=self.telemetry, **parts) as app:
            return app

    def _of_worker(self, name: str) -> Any:
        def fire(due: Any, *more: Any) -> Any:
            self.seen.append(due.id)

        def drive(contract_id: str, *more: Any) -> Any:
            self.seen.append(contract_id)

        parts = {
            "forward": fire,
            "resume": SimpleNamespace(fire=fire, drive=drive),
            "sender": SimpleNamespace(handle=lambda wanted: self.seen.append(wanted.owner_id)),
        }
        with worker_function(name.split(".")[1], clock=lambda: START_MS, telemetry=self.telemetry, **parts) as app:
            return app


@pytest.fixture(params=[*WORKER, *KERNEL])
def function(request, monkeypatch):
    made = Function(monkeypatch, request.param)
    made.good = json.dumps(GOOD[request.param])
    yield made
    sys.modules.pop(request.param, None)


def batch(*bodies: str) -> dict[str, Any]:
    records = [
        {"messageId": f"m{number}", "body": body, "eventSource": "aws:sqs"} for number, body in enumerate(bodies)
    ]
    return {"Records": records}


@pytest.mark.parametrize("poison", POISON)
def test_a_message_that_cannot_be_read_comes_back_alone(function, poison):
    answer = function.app.handler(batch(function.good, poison, function.good), CONTEXT)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert len(function.seen) == 2
    assert function.telemetry.bugs == 1


@pytest.mark.parametrize("name", ["worker.due.app", "kernel.due.app"])
def test_a_due_time_of_a_later_version_comes_back_alone(monkeypatch, name):
    function = Function(monkeypatch, name)

    answer = function.app.handler(batch(json.dumps(GOOD[name]), LATER, json.dumps(GOOD[name])), CONTEXT)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert len(function.seen) == 2
    sys.modules.pop(name, None)


def looking(fails: dict[str, Exception], seen: list[str]) -> Callable[[str], None]:
    def look(body: str) -> None:
        seen.append(body)
        if body in fails:
            raise fails[body]

    return look


def test_a_bug_that_one_message_meets_brings_back_that_one():
    seen: list[str] = []

    answer = handled(batch("a", "b", "c"), looking({"b": KeyError("b")}, seen), lambda: None)

    assert seen == ["a", "b", "c"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}


def test_a_bug_that_every_message_meets_is_an_error_of_the_function():
    seen: list[str] = []

    with pytest.raises(KeyError):
        handled(batch("a", "b"), looking({"a": KeyError("a"), "b": KeyError("b")}, seen), lambda: None)

    assert seen == ["a", "b"]


def test_failures_that_pass_are_no_error_of_the_function_however_many():
    answer = handled(batch("a", "b"), looking(dict.fromkeys("ab", Unavailable("the table")), []), lambda: None)

    assert len(answer["batchItemFailures"]) == 2


def test_messages_for_which_there_is_no_time_come_back_unseen():
    seen, left = list[str](), iter([9_000, 9_000])

    answer = handled(batch("a", "b", "c"), looking({}, seen), lambda: None, lambda: next(left))

    assert seen == ["a"]
    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == ["m1", "m2"]
