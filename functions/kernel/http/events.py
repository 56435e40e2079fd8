"""Events of API Gateway as Mangum needs them: it fails on some that are well-formed, and reads others wrongly.

| what arrives                       | Mangum 0.22                  | here                                        |
|------------------------------------|------------------------------|---------------------------------------------|
| no headers (`null`)                | fails                        | an empty object                             |
| a Host with an IPv6 address        | fails                        | a name that stands for it                   |
| a body that is not base64          | reads nothing, or something  | refused                                     |
| a body that is not text            | fails                        | refused                                     |
| a path, which is decoded already   | decodes it again             | encoded before                              |
| a base path of a custom domain     | keeps it                     | the path behind it                          |
| query parameters that are `null`   | fails where only one form is | an empty object                             |
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from piecework.edge.http import body_text
from piecework.errors import BadRequest
from piecework.kernel.edge import line, refusal_of, request_id
from piecework.kernel.errors import Invalid

PROXY: Final = "proxy"
IPV6_HOST: Final = "ipv6.invalid"


def repaired(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as Mangum reads it rightly.

    Raises:
        BadRequest: the body is not what its mark says.
    """
    names = event.get("headers") or {}
    lists = event.get("multiValueHeaders") or {name: [value] for name, value in names.items() if value is not None}
    headers = {
        name: [_host(value) if name.lower() == "host" else value for value in values or ()]
        for name, values in lists.items()
    }
    query = event.get("multiValueQueryStringParameters") or {}
    return {
        **event,
        "path": quote(_behind_base(event), safe="/", errors="replace"),
        "headers": {name: values[-1] for name, values in headers.items() if values},
        "multiValueHeaders": {name: values for name, values in headers.items() if values},
        "multiValueQueryStringParameters": query,
        "queryStringParameters": event.get("queryStringParameters") or {},
        "body": _checked(event),
    }


def refused(message: str) -> dict[str, Any]:
    """The answer to a request whose body cannot be read at all."""
    status, body = refusal_of(Invalid(message))
    headers = {"content-type": "application/json", "x-request-id": request_id("")}
    return {"statusCode": status, "headers": headers, "body": line(body).decode(), "isBase64Encoded": False}


def _checked(event: Mapping[str, Any]) -> str:
    body = body_text(event.get("body"))
    if not event.get("isBase64Encoded"):
        return body
    try:
        base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("the body is not base64") from None
    return body


def _behind_base(event: Mapping[str, Any]) -> str:
    """The path without a base path or a stage: what the resource matched is its end, decoded or as it was sent."""
    path = str(event.get("path") or "/")
    bare = path.rstrip("/")
    matched = _matched(event)
    for end in (matched, unquote(matched)):
        if end and bare.endswith(end):
            return end + path[len(bare) :]
    return "/" if event.get("resource") == "/" else path


def _matched(event: Mapping[str, Any]) -> str:
    """What the resource matched, without a slash at its end; empty where the event does not say."""
    resource, parameters = str(event.get("resource") or ""), event.get("pathParameters") or {}
    if resource == "/{proxy+}":
        return f"/{parameters.get(PROXY) or ''}".rstrip("/")
    return _filled(resource, parameters).rstrip("/")


def _filled(resource: str, parameters: Mapping[str, str]) -> str:
    parts = (parameters.get(part[1:-1], part) if part.startswith("{") else part for part in resource.split("/"))
    return "/".join(parts)


def _host(value: str | None) -> str:
    return IPV6_HOST if value and (value.startswith("[") or value.count(":") > 1) else value or ""
