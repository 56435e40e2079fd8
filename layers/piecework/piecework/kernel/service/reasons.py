"""Why an execution stands where it stands, in words for people: what it waits for now, or why it has failed.

Neither is stored. What it waits for follows from its checkpoint, and where nobody has it, from whether its agent is
connected. Why it failed is in the last event of its log, so executions that earlier code has ended say it too.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from piecework.kernel.clocks import rfc3339
from piecework.kernel.model import payloads
from piecework.kernel.model.events import Event
from piecework.kernel.model.hosted import is_hosted
from piecework.kernel.model.ports.executions import Details, Executions, Standing, Summary
from piecework.kernel.model.state import Execution, Status, Step, StepStatus
from piecework.values import replace

FAILED: Final = "execution.failed"
MOST_AGENTS: Final = 10  # of a page, whose boards are looked at
LIST_CHARACTERS: Final = 300  # of a reason in a list


class Service(NamedTuple):
    """Who takes the executions of an agent that nobody has."""

    is_there: bool  # a connected consumer, or a registered executor
    is_paused: bool = False


class Reason(NamedTuple):
    """What a list shows of the reasons of one execution."""

    error: str | None
    waiting_for: str | None


class Reasons:
    """Adds the reasons to what is shown of an execution, with one bounded read where one is needed."""

    def __init__(self, executions: Executions, service: Callable[[str], Service], clock: Callable[[], int]) -> None:
        self._executions, self._service, self._clock = executions, service, clock

    def with_reasons(self, view: Details) -> Details:
        """The same execution with `error` and `waiting_for`, each where it has one."""
        execution = view.execution
        if execution.forgotten:
            return view
        if execution.status is Status.FAILED:
            return replace(view, error=self._error(execution))
        service = self._service(execution.agent_id) if execution.is_waiting else Service(False)
        return replace(view, waiting_for=waiting_for(execution, self._clock(), service))

    def of_rows(self, rows: Sequence[Summary]) -> dict[str, Reason]:
        """The reasons of a page of at most 100 executions, in two requests, and one for each of its first agents."""
        standing = self._executions.standing([row.id for row in rows])
        waiting = [one.execution.agent_id for one in standing.values() if one.execution.is_waiting]
        services = {agent_id: self._service(agent_id) for agent_id in list(dict.fromkeys(waiting))[:MOST_AGENTS]}
        now_ms = self._clock()
        return {id_: _reason(one, services.get(one.execution.agent_id), now_ms) for id_, one in standing.items()}

    def _error(self, execution: Execution) -> str | None:
        """What its last event says; None when its log is being forgotten."""
        last = self._executions.events(execution.id, execution.sequence - 1, 1)
        return _error_in(last[0]) if last else None


def _error_in(last: Event) -> str | None:
    return cast("payloads.ExecutionFailed", last.payload)["error"] if last.type == FAILED else None


def _reason(standing: Standing, service: Service | None, now_ms: int) -> Reason:
    execution = standing.execution
    if execution.forgotten:
        return Reason(None, None)
    error = _error_in(standing.last) if standing.last and execution.status is Status.FAILED else None
    return Reason(_short(error), _short(waiting_for(execution, now_ms, service)))


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LIST_CHARACTERS else f"{text[: LIST_CHARACTERS - 1]}…"


def waiting_for(execution: Execution, now_ms: int, service: Service | None) -> str | None:
    """What an execution waits for at this time; None when it has ended.

    The service counts while nobody has it; None where nobody has looked.
    """
    if execution.status.is_terminal:
        return None
    if execution.is_waiting:
        return _taker(f"agent {_quoted(execution.agent_id)}", service)
    if execution.blocked is not None:
        return _answer(execution)
    if not execution.steps:
        return f"{_agent(execution)} to go on"
    first, *more = sorted(execution.steps.values(), key=lambda step: _rank(step, now_ms))
    others = f", and {len(more)} more {'step' if len(more) == 1 else 'steps'}" if more else ""
    return _work(execution, first, now_ms) + others


def _taker(agent: str, service: Service | None) -> str:
    if service is None:
        return f"{agent} to connect or to take it"
    if service.is_paused:
        return f"{agent} to be resumed; it is paused"
    return f"{agent} to take it" if service.is_there else f"no {agent} is connected"


def _answer(execution: Execution) -> str:
    blocked = execution.blocked
    if blocked is None or blocked.reason == "signal":
        return f"signal {_quoted(blocked.ref if blocked else '')}"
    step = execution.steps.get(blocked.ref)  # None: cancelled ahead of an end that is too big at once
    return f"a person: {step.tool_id}" if step else "its end"


def _rank(step: Step, now_ms: int) -> int:
    """What somebody may have to do something about comes first; among equals the oldest step."""
    if not step.job:
        return 4
    if step.job.held_by:
        return 3 if step.status is StepStatus.RUNNING else 2
    return 1 if step.job.not_before_ms > now_ms else 0


def _work(execution: Execution, step: Step, now_ms: int) -> str:
    job = step.job
    if job is None:
        return f"{_agent(execution)}: {step.tool_id}"
    if job.held_by is not None:
        runner = f"runner {_quoted(job.held_by.runner_id)}"
        is_begun = step.status is StepStatus.RUNNING
        return f"{runner}: {step.tool_id}" if is_begun else f"{runner} to begin {step.tool_id}"
    if job.not_before_ms > now_ms:
        return f"attempt {step.attempt} of {step.tool_id} at {rfc3339(job.not_before_ms)}"
    return f"a runner for {step.tool_id}"


def _agent(execution: Execution) -> str:
    return f"{'hosted ' if is_hosted(execution) else ''}agent {_quoted(execution.agent_id)}"


def _quoted(text: str) -> str:
    """A name between quotes, with what would end them or the line escaped."""
    return json.dumps(text, ensure_ascii=False)
