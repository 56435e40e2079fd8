"""Due times of the kernel door: their kinds, and the ids of those that are about a connection."""

import base64
from typing import Final

from piecework.durable.due import Due
from piecework.jsons import Json
from piecework.kernel.model.notices import NOTICE_DUE, Notice

EXECUTION_DUE: Final = "kernel"  # its id is the execution's
AGENT_DUE: Final = "kernel-agent"  # an agent's consumer may have been lost
RUNNER_DUE: Final = "kernel-runner"  # a runner's connection may have been lost
SWEEP: Final = "kernel-sweep"  # no record's: a message that asks for one more sweep


def pair_id(owner: str, consumer_id: str) -> str:
    """The id of a due time about a connection; ids of 256 bytes fit a key, whatever characters they hold."""
    return f"{_packed(owner)}.{_packed(consumer_id)}"


def pair_of(due_id: str) -> tuple[str, str]:
    """The agent or runner, and the consumer, of such an id."""
    owner, _, consumer_id = due_id.partition(".")
    return _unpacked(owner), _unpacked(consumer_id)


def record_of(due: Due) -> dict[str, str]:
    """The ids of what a due time is about, for a line in the log."""
    if due.kind == NOTICE_DUE:
        execution_id, notice = Notice.of(due)
        return {"execution_id": execution_id, "step_id": notice.step_id, "notice": notice.what.value}
    if due.kind == EXECUTION_DUE:
        return {"execution_id": due.id}
    owner, consumer_id = pair_of(due.id)
    return {"agent_id" if due.kind == AGENT_DUE else "runner_id": owner, "consumer_id": consumer_id}


def message_of(due: Due) -> dict[str, Json]:
    """A due time on its way to who looks at it."""
    return {"kind": due.kind, "id": due.id, "due_ms": due.at_ms}


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _unpacked(text: str) -> str:
    return base64.urlsafe_b64decode(text).decode()
