"""Due times of the kernel door: their kinds, and the ids of those that are about a connection."""

import json
from typing import Final

EXECUTION_DUE: Final = "kernel"  # its id is the execution's
AGENT_DUE: Final = "kernel-agent"  # an agent's consumer may have been lost
RUNNER_DUE: Final = "kernel-runner"  # a runner's connection may have been lost


def pair_id(owner: str, consumer_id: str) -> str:
    """The id of a due time about a connection; both ids may hold any character."""
    return json.dumps([owner, consumer_id], separators=(",", ":"))


def pair_of(due_id: str) -> tuple[str, str]:
    """The agent or runner, and the consumer, of such an id."""
    owner, consumer_id = json.loads(due_id)
    return owner, consumer_id
