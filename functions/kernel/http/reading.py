"""Request bodies as section 2.1 asks: the first JSON value counts, unknown fields do not, wrong types are refused."""

import json
from typing import Annotated, ClassVar, Final, TypeVar

from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic import ValidationError as Misfit

from kernel.http.edge import NAMED, note
from piecework.errors import BadRequest
from piecework.jsons import Json, check_depth, first_value
from piecework.kernel.edge import ID_BYTES, is_too_long
from piecework.kernel.errors import Invalid

BODY_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 140  # nested containers, as at the other doors
SPACE: Final = " \t\r\n"
Body = TypeVar("Body", bound="Lenient")


def _id(text: str | None) -> str | None:
    if text is not None and is_too_long(text):
        raise ValueError(f"must be at most {ID_BYTES} bytes")
    return text


ID_LENGTH: Final = Field(json_schema_extra={"maxLength": ID_BYTES})  # in the document; the code counts bytes
Id = Annotated[str, AfterValidator(_id), ID_LENGTH]


class Lenient(BaseModel):
    """A body: types are strict, unknown fields are ignored, null is absent."""

    model_config = ConfigDict(strict=True, extra="ignore")
    NEEDED: ClassVar[tuple[str, ...]] = ()

    def check_needed(self) -> None:
        """Raises Invalid naming every needed field that is missing or empty."""
        missing = [name for name in self.NEEDED if getattr(self, name) in (None, "")]
        if missing:
            raise Invalid(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} required")


async def body_of(request: Request) -> Json:
    """The first JSON value of the body.

    Raises:
        Invalid: too large, empty, not JSON, or JSON that cannot be kept.
    """
    raw = await _bytes(request)
    try:
        check_depth(raw, MAX_DEPTH)
        text = raw.decode("utf-8", "surrogateescape").lstrip(SPACE)  # what follows the value may be anything
        value = first_value(text)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except BadRequest as error:
        raise Invalid(error.message) from None
    except UnicodeError:
        raise Invalid("the body holds what is not text") from None
    except (ValueError, RecursionError):
        raise Invalid("the body is not valid JSON") from None
    return value


async def read(model: type[Body], request: Request) -> Body:
    """The body as one of our shapes. Raises Invalid."""
    value = await body_of(request)
    if value is not None and not isinstance(value, dict):
        raise Invalid("the body must be a JSON object")
    try:
        body = model.model_validate({name: field for name, field in (value or {}).items() if field is not None})
    except Misfit as misfit:
        first = misfit.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise Invalid(f"{where}: {first['msg']}") from None
    note(request, **{name: getattr(body, name) for name in NAMED if getattr(body, name, None)})
    body.check_needed()
    return body


async def _bytes(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES:
            raise Invalid("request body too large")
        parts.append(part)
    return b"".join(parts)
