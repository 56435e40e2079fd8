"""Hints: who commits news for a stream sends it a hint, so that idle streams need not look through their outboxes.

An agent's hint follows the commit and may be lost; every stream also looks by itself every two seconds. A runner's is
part of the commit. Streams of the same process are woken at once. Hints of other processes are rows that all streams of
a process read in one request: looking through a hundred outboxes would cost a hundred.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from piecework.kernel.model.changes import Change, Push

ASSIGNED: Final = "execution.assigned"
MONITOR: Final = "monitor"  # the kind of keys that stand for executions

Key = tuple[str, str, str]  # kind, owner, consumer: of an agent or a runner; ("monitor", execution id, "")


class Named(NamedTuple):
    """The only message that a hint is about, by its key, and the execution that the message is about."""

    key: str
    execution_id: str


class Mark(NamedTuple):
    """What is left of the hints for a key."""

    number: int  # one more after each hint, unless the row has gone meanwhile
    named: Named | None = None  # of the last one


NO_MARK: Final = Mark(0)


class Hints(Protocol):
    """Hints that other processes read."""

    def send(self, hints: Mapping[Key, Named | None]) -> None: ...

    def marks(self, keys: Collection[Key]) -> Mapping[Key, Mark]:
        """A mark per key that was ever sent a hint; of an execution, its version."""


def agent_key(agent_id: str, consumer_id: str) -> Key:
    """The streams of an agent's consumer."""
    return ("agent", agent_id, consumer_id)


def runner_key(runner_id: str, consumer_id: str) -> Key:
    """The streams of a runner's connection."""
    return ("runner", runner_id, consumer_id)


def monitor_key(execution_id: str) -> Key:
    """The streams that follow an execution."""
    return (MONITOR, execution_id, "")


def concerned_by(change: Change) -> set[Key]:
    """The agents and runners that a change has news for."""
    keys = _agents(change)
    if change.job_push is not None:
        keys.add(runner_key(change.job_push.to.runner_id, change.job_push.to.consumer_id))
    return keys


def send_hints(hints: Hints, change: Change) -> None:
    """Tell the agents' streams of other processes; the hint of a job is stored with it.

    An assignment is named: nothing that its session was sent can precede it.
    """
    if keys := _agents(change):
        hints.send(dict.fromkeys(keys) | _named(change))


def _agents(change: Change) -> set[Key]:
    return {agent_key(push.agent_id, push.consumer_id) for push in change.pushes if not _is_known(push, change)}


def _named(change: Change) -> dict[Key, Named | None]:
    """An assignment that is its change's only message."""
    match change.pushes:
        case [push] if push.kind == ASSIGNED and change.job_push is None:
            return {agent_key(push.agent_id, push.consumer_id): Named(change.message_key(0), change.after.id)}
    return {}


def _is_known(push: Push, change: Change) -> bool:
    """A local step's result comes from the agent itself: it does not wait for the push."""
    step = change.before.steps.get(push.ref) if change.before and push.kind == "tool.result" else None
    return step is not None and not step.remote
