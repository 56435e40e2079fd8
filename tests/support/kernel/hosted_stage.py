"""Hosted agents over the kernel in memory: wake-ups wait in a list, leases are a dictionary, executors are given."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from piecework.errors import LeaseLost, Unprocessable
from piecework.extend.executors import Executor, Outcome, SilentLog, registered
from piecework.extend.executors import executor as register
from piecework.kernel.hosted.runs import Hosted, Leases
from piecework.kernel.settings import KernelSettings
from tests.support.fakes import FakePieceTable, no_renewal
from tests.support.kernel.house import House

MINUTES = 900_000
FOREVER_MS = 10**15


@dataclass
class Lease:
    token: str
    until_ms: int
    tries: int
    again: bool = False


@dataclass
class FakeLeases(Leases):
    """Leases in a dictionary, each method atomic."""

    rows: dict[str, Lease] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, execution_id: str, token: str, now_ms: int, until_ms: int) -> int | None:
        with self.lock:
            row = self.rows.setdefault(execution_id, Lease("", 0, 0))
            if row.until_ms > now_ms and row.token != token:
                row.again = True
                return None
            self.rows[execution_id] = Lease(token, until_ms, row.tries + 1)
            return row.tries + 1

    def renew(self, execution_id: str, token: str, until_ms: int) -> None:
        with self.lock:
            self._held(execution_id, token).until_ms = until_ms

    def release(self, execution_id: str, token: str) -> bool:
        with self.lock:
            row = self._held(execution_id, token)
            if row.again:
                row.again = False
                return False
            self.rows[execution_id] = Lease("", 0, 0)
            return True

    def give_up(self, execution_id: str, token: str) -> None:
        with self.lock:
            row = self.rows[execution_id]
            if row.token == token:
                row.token, row.until_ms = "", 0

    def _held(self, execution_id: str, token: str) -> Lease:
        row = self.rows.get(execution_id)
        if row is None or row.token != token:
            raise LeaseLost("another run has taken this execution over")
        return row


class HostedHouse(House):
    """A kernel in memory whose hosted agents are `functions`, by name; nothing runs until `look` or `settle`."""

    def __init__(self, settings: KernelSettings | None = None, **functions: Callable[..., Outcome]) -> None:
        self.executors = {name: an_executor(name, function) for name, function in functions.items()}
        self.settings, self.wakes, self.delayed = settings or KernelSettings(), list[str](), list[tuple[str, int]]()
        super().__init__(settings)
        self.executions = self.door.executions
        self.leases, self.steps = FakeLeases(), FakePieceTable(self.clock)
        tokens = count(1)
        self._token = lambda: f"token-{next(tokens)}"

    def parts(self) -> dict[str, Any]:
        return {"can_wake": True, "hosted_names": self.executors, "wake": self._wake}

    def _wake(self, execution_id: str, delay_ms: int) -> None:
        if delay_ms:
            self.delayed.append((execution_id, delay_ms))
        else:
            self.wakes.append(execution_id)

    def named(self, name: str) -> Executor:
        if name not in self.executors:
            raise Unprocessable("no executor has this name")
        return self.executors[name]

    def hosted(self, **other: Any) -> Hosted:
        """A process that runs hosted agents; `other` replaces some of its ports."""
        ports: dict[str, Any] = {
            "executions": self.executions,
            "kernel": self.kernel,
            "leases": self.leases,
            "steps": self.steps,
            "executor_of": self.named,
            "wake": self._wake,
            "log": SilentLog(),
        }
        return Hosted(**ports | other, settings=self.settings, clock=self.clock, token=self._token, renewal=no_renewal)

    def look(self, execution_id: str, **other: Any) -> str:
        """What a wake-up comes to."""
        return self.hosted(**other).run_turn(execution_id, self.now + MINUTES)

    def settle(self) -> list[str]:
        """Deliver wake-ups until there are none; what each came to."""
        came = []
        while self.wakes:
            came.append(self.look(self.wakes.pop(0)))
        return came

    def begin(self, agent_id: str = "desk", given: Any = None, labels: dict[str, str] | None = None) -> str:
        """A new execution's id; its first wake-up waits."""
        return self.kernel.create(agent_id, given, labels or {}).execution.id

    def step_of(self, execution_id: str) -> Any:
        """The one active step."""
        [step] = self.state(execution_id).steps.values()
        return step

    def finish(self, execution_id: str, **members: Any) -> None:
        """A runner's result for the one active step."""
        self.result(execution_id, self.step_of(execution_id).id, **members)

    def answer(self, execution_id: str, *, approved: bool, reason: str = "") -> None:
        """A person's answer to the one step that waits for it."""
        payload = {"step_id": self.step_of(execution_id).id, "approved": approved, "reason": reason}
        self.kernel.signal(execution_id, "step.approve", payload)

    def error(self, execution_id: str) -> Any:
        """Why an execution failed."""
        [event] = [event for event in self.kernel.events(execution_id, 0, 1000) if event.type == "execution.failed"]
        return event.payload["error"]


def an_executor(name: str, function: Callable[..., Outcome], **options: Any) -> Executor:
    """An executor that is registered nowhere else."""
    unique = f"{name}-{id(function)}"
    register(unique, **options)(function)
    return registered()[unique]
