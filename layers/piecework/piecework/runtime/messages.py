"""The shared parts of the runtime door's requests (runtime specification 2): unknown members are ignored.

Each model costs milliseconds of a cold start, so models are few and small, and each function has only its own.
"""

from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.errors import Unprocessable
from piecework.jsons import Json

NAMED_PROBLEMS: Final = 5  # members named in one message; it must stay under 512 characters

Count = Annotated[int, Field(ge=0, lt=2**64)]


Id = Annotated[str, Field(min_length=1)]  # not empty: callers without ids would share a record


class Message(BaseModel):
    """Strict types, unknown members ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


M = TypeVar("M", bound=Message)


def parse(model: type[M], value: dict[str, Json], under: str = "") -> M:
    """Read a message from parsed JSON.

    Raises:
        Unprocessable: members are missing or of the wrong type; the message names them, never their values.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    named = [f"{_path(under, problem['loc'])}: {problem['msg'].lower()}" for problem in problems[:NAMED_PROBLEMS]]
    raise Unprocessable("; ".join(named))


def _path(under: str, loc: tuple[int | str, ...]) -> str:
    return ".".join(filter(None, (under, *map(str, loc))))
