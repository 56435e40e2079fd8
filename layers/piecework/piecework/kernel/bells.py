"""Bells: what one process commits wakes its own open streams at once; streams of other processes find it by looking."""

from collections.abc import Callable
from typing import Protocol, cast

from piecework.kernel.changes import Change
from piecework.kernel.ports import Executions

Key = tuple[
    str, ...
]  # ("agent", agent id, consumer id), ("runner", runner id, consumer id) or ("monitor", execution id)


class Bell(Protocol):
    """Wakes the streams of a key; may be called from any thread."""

    def __call__(self, key: Key, /) -> None: ...


def agent_key(agent_id: str, consumer_id: str) -> Key:
    """The streams of an agent's consumer."""
    return ("agent", agent_id, consumer_id)


def runner_key(runner_id: str, consumer_id: str) -> Key:
    """The streams of a runner's connection."""
    return ("runner", runner_id, consumer_id)


def monitor_key(execution_id: str) -> Key:
    """The streams that follow an execution."""
    return ("monitor", execution_id)


def rung_by(change: Change) -> set[Key]:
    """Whom a change has news for."""
    keys = {agent_key(push.agent_id, push.consumer_id) for push in change.pushes} | {monitor_key(change.after.id)}
    if change.job_push is not None:
        keys.add(runner_key(change.job_push.to.runner_id, change.job_push.to.consumer_id))
    return keys


def ringing(executions: Executions, ring: Bell) -> Executions:
    """The same executions; a commit rings for whom it has news."""
    return cast("Executions", _Ringing(executions, ring))


class _Ringing:
    def __init__(self, executions: Executions, ring: Bell) -> None:
        self._executions, self._ring = executions, ring

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._executions, name)
        return found

    def commit(self, change: Change) -> None:
        self._executions.commit(change)
        for key in rung_by(change):
            self._ring(key)
