"""API Gateway REST proxy events in, proxy answers out; the same for every door.

Bodies may arrive base64-encoded, headers may be null and repeated, paths may carry a stage prefix (so `resource` names
the route), and the authorizer names the caller.
"""

import binascii
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from piecework.errors import BadRequest, TooLarge, Unauthorized, UnsupportedMediaType
from piecework.jsons import Json, loads_exact

BODY_LIMIT: Final = 4 * 1024 * 1024  # decoded bytes; base64 of it still fits Lambda's 6 MB event
JSON_MEDIA_TYPE: Final = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
TRACE_ID: Final = re.compile(r"Root=1-[0-9a-f]{8}-[0-9a-f]{24}")
TRACE_PARENT: Final = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
EDGE_MARGIN_MS: Final = 1_500  # reserved to answer before the edge's time-out


class Request(NamedTuple):
    """One request as the door reads it; header names are lower-case, values in their order of arrival."""

    method: str
    resource: str
    path: str
    headers: Mapping[str, list[str]]
    path_params: Mapping[str, str]
    query: Mapping[str, list[str]]
    context: Mapping[str, Any]
    remaining_ms: Callable[[], int]
    text: Any  # the event's body; valid only if it is a string
    is_base64: bool

    @classmethod
    def from_event(cls, event: Mapping[str, Any], remaining_ms: Callable[[], int]) -> "Request":
        """Read a proxy event; absent and null members, and those of another type, count as empty."""
        event = _members(event)
        return cls(
            method=str(event.get("httpMethod") or "GET"),
            resource=str(event.get("resource") or ""),
            path=str(event.get("path") or "/"),
            headers=_multi(event.get("multiValueHeaders"), event.get("headers"), str.lower),
            path_params=_members(event.get("pathParameters")),
            query=_multi(event.get("multiValueQueryStringParameters"), event.get("queryStringParameters"), str),
            context=_members(event.get("requestContext")),
            remaining_ms=remaining_ms,
            text=event.get("body"),
            is_base64=bool(event.get("isBase64Encoded")),
        )

    @property
    def caller(self) -> str:
        """The caller's name from the authorizer.

        Raises:
            Unauthorized: the request did not pass the authorizer.
        """
        name = _members(self.context.get("authorizer")).get("caller")
        if not name:
            raise Unauthorized("credentials are missing or wrong")
        return str(name)

    @property
    def trace_id(self) -> str | None:
        """The caller's trace id in X-Ray's form, from `X-Amzn-Trace-Id` or a W3C `traceparent`."""
        if found := TRACE_ID.search(self.header("x-amzn-trace-id")):
            return found.group()
        if found := TRACE_PARENT.fullmatch(self.header("traceparent")):
            return f"Root=1-{found[1][:8]}-{found[1][8:]}"
        return None

    def header(self, name: str) -> str:
        """The first value of a header, or an empty string."""
        return next(iter(self.headers.get(name, ())), "")

    def body(self) -> bytes:
        """The decoded body.

        Raises:
            BadRequest: it is not a string, or is marked as base64 and is not.
            TooLarge: it is over `BODY_LIMIT`.
        """
        raw = body_text(self.text)
        if len(raw) > BODY_LIMIT * 4 // 3 + 4:
            raise TooLarge(f"the body is over {BODY_LIMIT} bytes")
        try:
            data = (
                binascii.a2b_base64(raw, strict_mode=True) if self.is_base64 else raw.encode("utf-8", "surrogatepass")
            )
        except ValueError:
            raise BadRequest("the body is not valid base64") from None
        if len(data) > BODY_LIMIT:
            raise TooLarge(f"the body is over {BODY_LIMIT} bytes")
        return data

    def json(self) -> Json:
        """The body as one JSON document; numbers keep their text where it is not the canonical one.

        Raises:
            UnsupportedMediaType: it is not declared as JSON.
            BadRequest: it is not JSON.
            TooLarge: it is over `BODY_LIMIT`.
        """
        if not JSON_MEDIA_TYPE.fullmatch(self.header("content-type").strip()):
            raise UnsupportedMediaType("send content-type: application/json")
        return loads_exact(self.body())

    def json_object(self) -> dict[str, Json]:
        """The body as one JSON object.

        Raises:
            BadRequest: it is another type of value; and as `json`.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise BadRequest("the body must be a JSON object")
        return value


class Response(NamedTuple):
    """A door's answer, and the facts for its outcome line and metrics."""

    status: int
    body: bytes
    headers: Mapping[str, str] = NOTHING
    is_binary: bool = False
    facts: Mapping[str, Any] = NOTHING
    counts: Mapping[str, int] = NOTHING

    def to_proxy(self, trace_id: str | None = None) -> dict[str, Any]:
        """The Lambda proxy answer."""
        headers = {"Content-Type": "application/json", **self.headers}
        if trace_id:
            headers["X-Amzn-Trace-Id"] = trace_id
        body = (
            binascii.b2a_base64(self.body, newline=False).decode("ascii")
            if self.is_binary
            else self.body.decode("utf-8")
        )
        return {"statusCode": self.status, "headers": headers, "body": body, "isBase64Encoded": self.is_binary}


def header_text(text: str) -> str:
    """A text for a header: visible ASCII, other characters as question marks."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)


def body_text(body: Any) -> str:
    """An event's body as API Gateway sends it: a string, or empty.

    Raises:
        BadRequest: it is another type, as in a test event that was written by hand.
    """
    if body is None or isinstance(body, str):
        return body or ""
    raise BadRequest("the event's body must be a string: in a test event, write the JSON document as one string")


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else NOTHING


def _multi(many: Any, single: Any, name_of: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in (_members(many) or _members(single)).items():
        values = value if isinstance(value, list | tuple) else () if value is None else (value,)
        found.setdefault(name_of(name), []).extend(str(item) for item in values)
    return found
