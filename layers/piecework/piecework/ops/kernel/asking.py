"""What requests about the kernel ask: parameters, bodies, and in whose name they act."""

import json
from collections.abc import Mapping
from typing import Final

from piecework.edge.http import JSON_MEDIA_TYPE, Request, Response
from piecework.edge.roles import Caller, Role, Roles
from piecework.edge.tokens import ANONYMOUS
from piecework.errors import BadRequest, TooLarge, UnsupportedMediaType
from piecework.jsons import Json, check_depth, first_value
from piecework.kernel.edge import ID_BYTES, is_too_long, line
from piecework.kernel.model.state import Status

PREFIX: Final = "ops:"  # of the names of this door's tokens in events; a token of the kernel door has no colon
BODY_BYTES: Final = 1_048_576  # as at the kernel door
MAX_DEPTH: Final = 140
MOST_LABELS: Final = 64  # of one filter or execution
WORKERS: Final[Roles] = frozenset({Role.AGENT, Role.RUNNER})  # open nothing here


def acting(caller: Caller) -> Caller:
    """A caller of this door as the kernel knows him: `ops:` stands before his token's name.

    An operator sends ordinary signals as a client does; he answers about steps only as an approver.
    """
    roles = caller.roles - WORKERS
    roles |= {Role.CLIENT} if Role.OPERATOR in roles else frozenset()
    return Caller(f"{PREFIX}{caller.name or ANONYMOUS}", roles, caller.is_limited)


def answered(body: Json, **facts: str) -> Response:
    """An answer with values as callers gave them: text that is not UTF-8 is escaped, and a page fits what an answer
    may hold."""
    return Response(200, line(body), is_binary=True, facts=facts)


def members(request: Request, *allowed: str, or_null: str = "") -> dict[str, Json]:
    """The body as an object of known members, null counting as absent but for the one that may be null; an empty body
    has none.

    Raises:
        UnsupportedMediaType: it is not declared as JSON; a page of another site cannot declare that unasked.
        BadRequest: it is something else, or has values that cannot be kept.
        TooLarge: it is over `BODY_BYTES`.
    """
    if not JSON_MEDIA_TYPE.fullmatch(request.header("content-type").strip()):
        raise UnsupportedMediaType("send content-type: application/json")
    raw = request.body()
    if not raw.strip():
        return {}
    if len(raw) > BODY_BYTES:
        raise TooLarge(f"the body is over {BODY_BYTES} bytes")
    value = _value(raw)
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    if unknown := [name for name in value if name not in allowed]:
        raise BadRequest(f"the member {unknown[0][:40]!r} is not known here; send {', '.join(allowed) or 'none'}")
    return {name: given for name, given in value.items() if given is not None or name == or_null}


def check_said_once(request: Request) -> None:
    """Raises BadRequest where an object of a body names a member more than once; `members` has read it, and takes the
    last one, as the kernel door does."""
    _ONCE.raw_decode(request.body().decode("utf-8").strip() or "{}")


def text(body: Mapping[str, Json], name: str, *, is_needed: bool = False) -> str:
    """A member that is an id or a cursor; empty when it is not given.

    Raises:
        BadRequest: it is not a text, too long, or missing where it is needed.
    """
    value = body.get(name, "")
    if not isinstance(value, str) or is_too_long(value):
        raise BadRequest(f"{name} must be a text of at most {ID_BYTES} bytes")
    if is_needed and not value:
        raise BadRequest(f"{name} is required")
    return value


def labels(body: Mapping[str, Json]) -> dict[str, str]:
    """The labels of a body. Raises BadRequest unless they are texts by name."""
    value = body.get("labels", {})
    if not isinstance(value, dict) or not all(isinstance(label, str) for label in value.values()):
        raise BadRequest("labels must be an object of texts")
    if len(value) > MOST_LABELS:
        raise BadRequest(f"there are over {MOST_LABELS} labels")
    return value


def switch(body: Mapping[str, Json], name: str) -> bool:
    """A member that must be true or false. Raises BadRequest."""
    value = body.get(name)
    if not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false")
    return value


def whole(body: Mapping[str, Json], name: str, most: int) -> int | None:
    """A member that is a whole number, None when it is not given. Raises BadRequest."""
    value = body.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most):
        raise BadRequest(f"{name} must be a whole number from 0 to {most}")
    return value


def status_of(given: str) -> Status | None:
    """The status that a filter names, None for none. Raises BadRequest for any other text."""
    if given and given not in list(Status):
        raise BadRequest(f"status must be one of {', '.join(Status)}")
    return Status(given) if given else None


def labels_asked(pairs: list[str]) -> dict[str, Json]:
    """The labels of a filter, each written `key:value`. Raises BadRequest, also for a key that is given again."""
    found: dict[str, Json] = {}
    for pair in pairs:
        key, parted, value = pair.partition(":")
        if not key or not parted or len(pair) > ID_BYTES * 2:
            raise BadRequest("label must read key:value")
        if key in found:
            raise _said_again("label", key)
        found[key] = value
    if len(found) > MOST_LABELS:
        raise BadRequest(f"there are over {MOST_LABELS} labels")
    return found


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, value in pairs:
        if name in found:
            raise _said_again("member", name)
        found[name] = value
    return found


def _said_again(what: str, name: str) -> BadRequest:
    return BadRequest(f"the {what} {name[:40]!r} is given more than once")


_ONCE: Final = json.JSONDecoder(object_pairs_hook=_once)


def _value(raw: bytes) -> Json:
    """A JSON value with integers in full, as the kernel keeps it."""
    check_depth(raw, MAX_DEPTH)
    try:
        value = first_value(raw.decode("utf-8").lstrip(" \t\r\n"))
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise BadRequest("the body holds what is not text") from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not valid JSON") from None
    return value
