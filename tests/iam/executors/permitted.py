"""An executor and a hook that use everything their roles allow: a recorded step and the executors' secret."""

import os

from piecework.aws.secrets import secret_text
from piecework.errors import Retryable
from piecework.event_hook import AgentEvent, Decision, on_agent_event
from piecework.executor_secrets import secret
from piecework.executors import Outcome, Run, Task, executor

failed: set[str] = set()


@executor("permitted", task_types=("permitted",))
def permitted(task: Task, run: Run) -> Outcome:
    """Read the secret, do a step, fail once, then answer."""
    return Outcome({"answer": once(task.execution_id, run)})


@on_agent_event(types=("topic_message_requires_reply",))
def reply(event: AgentEvent, run: Run) -> Decision:
    """The same for an event."""
    return Decision("reply", "wattswarm_direct", payload={"content": once(event.event_id, run)})


def once(name: str, run: Run) -> str:
    """Whether the secret is there, as a step that is recorded before the first run fails."""
    answer: str = run.step("look", lambda: str(len(secret("PERMITTED_KEY", os.environ, secret_text))))
    if name not in failed:
        failed.add(name)
        raise Retryable("the first run fails after its step")
    return answer
