"""One piece of work by a chat model: ask, read, check, and ask again with the reason while time allows.

    model-1 → read → fits? yes: the output
                     no:  model-2 with the reason → … → model-(1 + repairs) → refused

Every call is a step, so a runner that takes the piece over continues after the last answered call and does not pay for
a call twice. A repair shows the model only its last answer, so that each call costs about the same.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from piecework.errors import PieceworkError, Refused, Retryable, UpstreamFailed
from piecework.extend.executors import Run, Task
from piecework.jsons import Json
from piecework.models.answers import read_answer
from piecework.models.brain import Brain
from piecework.models.chat import Model, Question, QuestionRejected, Reply, Turn
from piecework.models.prompt import SYSTEM, first_message, repair_message
from piecework.models.structured import is_askable, is_closed

KEPT_BACK_MS: Final = 1_500  # reserved to check, store evidence and record after the last answer
LEAST_CALL_MS: Final = 1_000  # models do not answer in less
SHORT_DEADLINE_MS: Final = 30_000  # the kernel's connection: the first call must leave time for /verify
FIRST_CALL_MS: Final = 20_000  # under a short deadline
WARMER: Final = 0.6  # added when a different answer is requested
WARM: Final = 1.0  # every endpoint accepts this temperature; a higher one breaks the JSON


@dataclass
class Completion:
    """The conversation of one piece."""

    task: Task
    run: Run
    brain: Brain
    model: Model
    turns: list[Turn] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    unusable: str = ""  # why the last answer was not usable, as a code, because texts may quote the task

    def __post_init__(self) -> None:
        self._ends_at_ms = self.run.remaining_ms() - self.brain.budget_ms
        self._is_short = self.run.remaining_ms() <= SHORT_DEADLINE_MS

    def output(self) -> Json:
        """An output that fits.

        Raises:
            Refused: no answer fitted, or the model declines.
            Retryable: the model is throttled, or too little time is left to ask it.
            UpstreamFailed: the model failed, or time ran out without an answer that fits.
        """
        try:
            return self._converse()
        except PieceworkError as error:
            self.run.log.warning("completion_failed", code=error.code, reason=self.unusable, **self._figures())
            raise
        finally:
            self.run.note(**self._figures())

    def _converse(self) -> Json:
        asked = Turn("user", first_message(self.task))
        self.turns, problem = [asked], ""
        for number in range(1, self.brain.repairs + 2):
            reply = self._call(number)
            fit = read_answer(self.task, reply)
            if fit.problem is None:
                return fit.output
            problem = fit.problem
            self.unusable = "cut" if reply.is_cut else "misfit"
            self.turns = _repairing(asked, reply.text, repair_message(problem))
        raise Refused(f"the model gave no output that fits output_schema: {problem}")

    def _call(self, number: int) -> Reply:
        recorded = self.run.step(f"model-{number}", lambda: to_step(self._ask(number)))
        reply = from_step(recorded)
        self.calls = number
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
        return reply

    def _ask(self, number: int) -> Reply:
        question = self._question(number)
        try:
            return self.model.ask(question)
        except QuestionRejected:
            if question.schema is None and not question.json_only:
                raise
        plain = replace(question, schema=None, json_only=False, timeout_seconds=self._seconds(number))
        return self.model.ask(plain)

    def _question(self, number: int) -> Question:
        schema = self.task.output_schema
        is_form = self.brain.structured == "json_schema" or (
            self.brain.structured == "auto" and (self.brain.kind != "bedrock" or is_closed(schema))
        )
        return Question(
            model=self.brain.model,
            system=SYSTEM,
            turns=tuple(self.turns),
            max_tokens=self.brain.max_tokens,
            timeout_seconds=self._seconds(number),
            temperature=self._temperature(),
            schema=schema if is_form and is_askable(schema) else None,
            json_only=self.brain.structured == "json_object",
            trace_id=self.run.trace_id,
        )

    def _temperature(self) -> float | None:
        temperature = self.brain.temperature
        if temperature is None or self.task.stage != "diverge":
            return temperature
        return max(temperature, min(WARM, temperature + WARMER))

    def _seconds(self, number: int) -> float:
        """The seconds that this call may take, bounded by the deadline and both budgets."""
        remaining_ms = self.run.remaining_ms()
        room_ms = min(self.brain.call_ms, remaining_ms - KEPT_BACK_MS, remaining_ms - self._ends_at_ms)
        if number == 1 and self._is_short:
            room_ms = min(room_ms, FIRST_CALL_MS)
        if room_ms >= LEAST_CALL_MS:
            return room_ms / 1000
        if number == 1:
            raise Retryable("too little time is left to ask the model")
        raise UpstreamFailed("the model's answers did not fit output_schema and too little time is left to ask again")

    def _figures(self) -> dict[str, Any]:
        return {
            "model": self.brain.model,
            "model_calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }


def to_step(reply: Reply) -> dict[str, Json]:
    """A reply as the step's recorded result."""
    return {
        "text": reply.text,
        "is_cut": reply.is_cut,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
    }


def from_step(recorded: dict[str, Any]) -> Reply:
    """The reply in a recorded result; members of later code are ignored."""
    known = {member.name for member in fields(Reply)}
    return Reply(**{name: value for name, value in recorded.items() if name in known})


def _repairing(asked: Turn, text: str, request: str) -> list[Turn]:
    """The conversation that asks again; endpoints refuse an empty turn, so an empty answer is left out."""
    if not text:
        return [Turn("user", f"{asked.text}\n\n{request}")]
    return [asked, Turn("assistant", text), Turn("user", request)]
