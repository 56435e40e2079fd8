"""`run.tool` of a hosted agent: an intent under the execution's session, or what was recorded of it.

The key of a call is its place in the run, so a repeat of the run finds the calls before it answered: by a result, a
failure, a denial, or not yet, which ends the run until there is an answer.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from piecework.errors import PolicyDenied, ToolFailed
from piecework.extend.right import Stopped
from piecework.jsons import Json
from piecework.kernel.decide.intents import must_look_up_step, standing_answer
from piecework.kernel.errors import (
    Conflict,
    ExecutionBlocked,
    ExecutionTainted,
    ExecutionTerminal,
    Unauthorized,
)
from piecework.kernel.model.changes import IdempotencyRecord, Outcome
from piecework.kernel.model.commands import INVOKE_TOOL, Intent, Report
from piecework.kernel.model.ports.executions import Executions, Read
from piecework.kernel.model.state import StepStatus
from piecework.kernel.service.service import Kernel

KEY: Final = "hosted:"  # and the place of the call in its run
OTHER_CALL: Final = (
    "call {place} of run.tool is not the one that was recorded: an executor makes the same calls in the same order"
    " each time it runs"
)
FEWER_CALLS: Final = (
    "the run ended before call {place} of run.tool, which was recorded: an executor makes the same calls each time it"
    " runs"
)


class Halt(Stopped):
    """Ends a run from inside for what its execution waits for, or has come to; `word` says so in the log."""

    word: ClassVar[str]


class Suspended(Halt):
    """A tool has not answered yet: its answer starts the run again."""

    word = "suspended"


class Gone(Halt):
    """The execution has ended, or is not this run's any more: nothing that follows would count."""

    word = "gone"


class Diverged(Halt):
    """The run calls otherwise than what was recorded; the execution fails with this text."""

    word = "failed"


class Tools:
    """The tool calls of one run; `halt` is what ended it, whatever its executor made of that."""

    def __init__(
        self,
        executions: Executions,
        kernel: Kernel,
        execution_id: str,
        session_id: str,
        before_asking: Callable[[], None] = lambda: None,
        reports: Callable[[], tuple[Report, ...]] = tuple,
    ) -> None:
        self._executions, self._kernel = executions, kernel
        self._execution_id, self._session_id = execution_id, session_id
        self._before_asking, self._reports = before_asking, reports
        self._calls = 0
        self.halt: Halt | None = None

    def call(self, tool_id: str, arguments: Mapping[str, Json]) -> Json:
        """The tool's result.

        Raises:
            ToolFailed: it was called and failed.
            PolicyDenied: the policy or a person says no.
            Halt: the run ends here.
        """
        if self.halt is not None:
            raise self.halt
        self._calls += 1
        try:
            return self._answer(self._intent(tool_id, dict(arguments)))
        except Halt as halt:
            self.halt = halt
            raise

    def check_ended(self) -> None:
        """Raises Diverged when an earlier run made a call that this one did not come to."""
        intent = self._intent("", {}, self._calls + 1)
        read = self._read(intent)
        if read.answered is not None and not _is_free(read, read.answered):
            raise Diverged(FEWER_CALLS.format(place=self._calls + 1))

    def _intent(self, tool_id: str, arguments: dict[str, Json], place: int | None = None) -> Intent:
        key = f"{KEY}{place or self._calls}"
        return Intent(INVOKE_TOOL, tool_id, arguments, True, idempotency_key=key, remote=True)

    def _answer(self, intent: Intent) -> Json:
        read = self._read(intent)
        try:
            standing = standing_answer(read, intent)
            if standing is not None:
                return _recorded(standing, read)
            self._before_asking()
            answer = self._kernel.intent(self._execution_id, self._session_id, intent, reports=self._reports())
        except (ExecutionTerminal, ExecutionTainted, ExecutionBlocked, Unauthorized) as error:
            raise Gone(error.text) from None
        except Conflict:
            raise Diverged(OTHER_CALL.format(place=self._calls)) from None
        if not answer["accepted"]:
            raise PolicyDenied(str(answer["error"]))
        raise Suspended

    def _read(self, intent: Intent) -> Read:
        read = self._executions.read(self._execution_id, key=intent.idempotency_key)
        execution, answered = read.execution, read.answered
        if execution is None or execution.session is None or execution.session.id != self._session_id:
            raise Gone("the execution was given to another run")
        if answered is not None and must_look_up_step(read):
            read = self._executions.read(self._execution_id, key=intent.idempotency_key, step_id=answered.step_id)
        return read


def _recorded(answered: IdempotencyRecord, read: Read) -> Json:
    if not answered.answer["accepted"]:
        raise PolicyDenied(str(answered.answer["error"]))
    outcome = read.step.outcome if read.step else None
    if outcome is None:
        raise Suspended
    return _result(outcome)


def _result(outcome: Outcome) -> Json:
    if outcome.status is StepStatus.SUCCEEDED:
        return outcome.result
    if outcome.is_denied:
        raise PolicyDenied(outcome.error)
    raise ToolFailed(outcome.error or "the tool failed")


def _is_free(read: Read, answered: IdempotencyRecord) -> bool:
    """A call whose step was cancelled by a reset counts as not made."""
    is_active = read.execution is not None and answered.step_id in read.execution.steps
    has_outcome = read.step is not None and read.step.outcome is not None
    return bool(answered.step_id) and not is_active and not has_outcome
