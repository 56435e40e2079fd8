"""A hook that counts the events it hears and answers with a decision nobody else can make."""

import os
import uuid
from pathlib import Path

from piecework.errors import Retryable
from piecework.event_hook import AgentEvent, Decision, on_agent_event
from piecework.executors import Run


@on_agent_event(types=("topic_message_requires_reply",))
def counting(event: AgentEvent, run: Run) -> Decision | None:
    """Count the event and reply; the first try fails where the message says so."""
    tries = count(event.event_id)
    if event.payload["content"] == "fail first" and tries == 1:
        raise Retryable("not now")
    return Decision("reply", "wattswarm_direct", payload={"content": uuid.uuid4().hex})


def count(event_id: str) -> int:
    """Append a line for this run, with its process id; returns how many there are for the event."""
    path, key = Path(os.environ["TEST_RUNS"]), event_id.encode().hex()
    with path.open("a") as out:
        out.write(f"{key} {os.getpid()}\n")
    return sum(line.startswith(f"{key} ") for line in path.read_text().splitlines())
