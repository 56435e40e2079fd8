"""One question to a chat model and its reply; adapters fill the `Model` port."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Protocol

from piecework.errors import BadRequest, UpstreamFailed
from piecework.jsons import Json, canonical, loads_exact
from piecework.models.thoughts import after_thoughts
from piecework.values import dataclass

StructuredOutput = Literal["auto", "json_schema", "json_object", "off"]

TEXT_CHARACTERS: Final = 66_000  # stored of a reply; the largest output is 65,536 bytes
ESCAPED_CHARACTERS: Final = 58_000  # stored of a reply that is all escapes, six bytes each: so many fit a step
_ONE_FENCE: Final = re.compile(r"```\w*+(.*)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """The parts of one call; `schema` requests structured output, `temperature` None leaves it to the model."""

    model: str
    system: str
    turns: Sequence[Turn]
    max_tokens: int
    timeout_seconds: float
    temperature: float | None = None
    schema: Json = None
    json_only: bool = False
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's text, whether its end is missing, and its token counts."""

    text: str
    is_cut: bool = False
    input_tokens: int = 0
    output_tokens: int = 0


class QuestionRejected(UpstreamFailed):
    """The model's endpoint refuses the request in this form; without structured output it may accept it."""

    code: ClassVar[str] = UpstreamFailed.code


class Model(Protocol):
    """A chat model behind some endpoint."""

    def ask(self, question: Question) -> Reply:
        """Make one call, bounded by the question's time-out.

        Raises:
            Retryable: the model is throttled or overloaded.
            QuestionRejected: the endpoint refuses this request's form.
            UpstreamFailed: the endpoint is out of reach or too slow, or its answer is not usable.
            Refused: the model declines the task.
        """


def reply_of(text: str, *, is_cut: bool, input_tokens: int, output_tokens: int) -> Reply:
    """The reply in a text that may begin with reasoning; the reasoning is removed before the reply is shortened.

    A text is cut if it ends inside its reasoning, is longer than the bound, or holds half a character. A single
    document is stored in canonical form if only blanks and escapes make it too long.
    """
    answer = after_thoughts(text)
    if len(answer) > TEXT_CHARACTERS:
        answer = _in_short(answer)
    kept = answer[:TEXT_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    if len(canonical(kept)) > ESCAPED_CHARACTERS * 6:
        kept = kept[:ESCAPED_CHARACTERS]
    is_whole = bool(answer) and kept == answer
    return Reply(kept, is_cut or not is_whole, input_tokens, output_tokens)


def _in_short(text: str) -> str:
    """A text that is one document (in a fence or not) in canonical form; any other text unchanged."""
    inside = _ONE_FENCE.fullmatch(text)
    try:
        return canonical(loads_exact(inside[1] if inside else text)).decode("utf-8")
    except BadRequest:
        return text
