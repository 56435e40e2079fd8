"""Request bodies as section 2.1 asks: the first JSON value counts, unknown fields do not, wrong types are refused."""

import json
from typing import Final, TypeVar

from starlette.requests import Request

from kernel.http.edge import NAMED, note
from kernel.http.shapes import Body
from piecework.errors import BadRequest
from piecework.jsons import Json, check_depth, first_value
from piecework.kernel.errors import Invalid

BODY_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 140  # nested containers, as at the other doors
SPACE: Final = " \t\r\n"
B = TypeVar("B", bound=Body)


async def body_of(request: Request, *, may_be_empty: bool = False) -> Json:
    """The first JSON value of the body; None for an empty one that may be.

    Raises:
        Invalid: too large, empty, not JSON, or JSON that cannot be kept.
    """
    raw = await _bytes(request)
    if may_be_empty and not raw:
        return None
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


async def read(shape: type[B], request: Request, *, may_be_empty: bool = False) -> B:
    """The body in one of our shapes; an empty one that may be is an object without members. Raises Invalid."""
    value = await body_of(request, may_be_empty=may_be_empty)
    if value is not None and not isinstance(value, dict):
        raise Invalid("the body must be a JSON object")
    try:
        body = shape.of(value or {})
    except ValueError:
        from kernel.http.models import explained  # a fifth of a start, for who sends a wrong body

        raise Invalid(explained(shape, value)) from None
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
