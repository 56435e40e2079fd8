"""Events of API Gateway's REST APIs (payload version 1.0), and the reading of a function's response."""

import base64
import binascii
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from local.gateway.routes import Api, Route
from local.template import ACCOUNT, REGION

API_ID: Final = "local"
# Headers of a function that a REST API renames for the client.
REMAPPED: Final = frozenset({"connection", "content-length", "date", "server", "transfer-encoding", "www-authenticate"})


class MalformedResponse(Exception):
    """The function's response is not a proxy response."""


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request at the edge."""

    method: str
    path: str  # as sent, percent-encoded
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    client: str
    request_id: str
    trace_id: str

    def header(self, name: str) -> str:
        """The last value of a header, or an empty string."""
        return next((value for key, value in reversed(self.headers) if key.lower() == name), "")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the edge tells of a request: to authorizer and function alike; to web applications, as a header."""

    request: Mapping[str, Any]
    context: Mapping[str, Any]


def facts_of(api: Api, route: Route, call: Call, parameters: Mapping[str, str]) -> Facts:
    """The facts about a request that has a route."""
    return Facts(_request(call, route, parameters), _context(api, route, call))


def proxy_event(api: Api, call: Call, facts: Facts, authorizer: Mapping[str, Any] | None) -> dict[str, Any]:
    """The event of a Lambda proxy integration."""
    binary = bool(call.body) and _is_binary(call.header("content-type") or "application/json", api.binary_types)
    text = base64.b64encode(call.body).decode() if binary else call.body.decode("utf-8", "replace")
    return {
        **facts.request,
        "requestContext": request_context(facts, authorizer),
        "body": text or None,
        "isBase64Encoded": binary,
    }


def authorizer_event(api: Api, call: Call, facts: Facts) -> dict[str, Any]:
    """The event of a REQUEST authorizer."""
    arn = method_arn(api, call)
    return {"type": "REQUEST", "methodArn": arn, **facts.request, "requestContext": facts.context}


def request_context(facts: Facts, authorizer: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The request's context after the authorizer, if the route has one."""
    return facts.context if authorizer is None else {**facts.context, "authorizer": authorizer}


def method_arn(api: Api, call: Call) -> str:
    """The ARN with which a policy's statements are compared."""
    return f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{API_ID}/{api.stage}/{call.method}{call.path}"


def http_response(payload: bytes, api: Api, accept: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of a proxy response.

    Raises:
        MalformedResponse: it is not a proxy response.
    """
    response = _object(payload)
    unknown = set(response) - {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded", "cookies"}
    status = response.get("statusCode")
    if unknown or isinstance(status, bool) or not isinstance(status, int | str) or not str(status).isdigit():
        raise MalformedResponse(f"status or members are not those of a proxy response: {sorted(unknown)}")
    body = response.get("body")
    if not isinstance(body, str | None):
        raise MalformedResponse("body is not text")
    return int(status), _response_headers(response), _response_body(body or "", response, api, accept)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        response = json.loads(payload)
    except ValueError as error:
        raise MalformedResponse("not JSON") from error
    if not isinstance(response, dict):
        raise MalformedResponse("not an object")
    return response


def _response_headers(response: Mapping[str, Any]) -> list[tuple[str, str]]:
    single, multi = response.get("headers") or {}, response.get("multiValueHeaders") or {}
    if not isinstance(single, dict) or not isinstance(multi, dict):
        raise MalformedResponse("headers are not an object")
    if not all(isinstance(values, list) for values in multi.values()):
        raise MalformedResponse("multiValueHeaders must hold lists")
    repeated = {name.lower() for name in multi}
    pairs = [(name, value) for name, values in multi.items() for value in values]
    pairs += [(name, value) for name, value in single.items() if name.lower() not in repeated]
    return [(_visible(name), _text(value)) for name, value in pairs]


def _visible(name: str) -> str:
    return f"x-amzn-Remapped-{name}" if name.lower() in REMAPPED else name


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise MalformedResponse("a header is not text")


def _response_body(body: str, response: Mapping[str, Any], api: Api, accept: str) -> bytes:
    if not response.get("isBase64Encoded") or not _is_binary(accept, api.binary_types):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise MalformedResponse("body is not base64") from error


def _is_binary(media_type: str, binary_types: Iterable[str]) -> bool:
    first = media_type.partition(",")[0].partition(";")[0].strip().lower()
    return any(kind in ("*/*", first) for kind in binary_types)


def _request(call: Call, route: Route, parameters: Mapping[str, str]) -> dict[str, Any]:
    query = parse_qsl(call.query, keep_blank_values=True)
    headers = (*call.headers, *_forwarded(call))
    return {
        "resource": route.resource,
        "path": unquote(call.path),
        "httpMethod": call.method,
        "headers": dict(headers),
        "multiValueHeaders": _grouped(headers),
        "queryStringParameters": dict(query) or None,
        "multiValueQueryStringParameters": _grouped(query) or None,
        "pathParameters": {name: unquote(value) for name, value in parameters.items()} or None,
        "stageVariables": None,
    }


def _forwarded(call: Call) -> list[tuple[str, str]]:
    sent = {name.lower() for name, _ in call.headers}
    added = {"X-Amzn-Trace-Id": call.trace_id, "X-Forwarded-For": call.client, "X-Forwarded-Proto": "http"}
    return [(name, value) for name, value in added.items() if name.lower() not in sent]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, value in pairs:
        groups.setdefault(name, []).append(value)
    return groups


def _context(api: Api, route: Route, call: Call) -> dict[str, Any]:
    now = time.time()
    return {
        "accountId": ACCOUNT,
        "apiId": API_ID,
        "domainName": call.header("host"),
        "domainPrefix": API_ID,
        "extendedRequestId": call.request_id,
        "httpMethod": call.method,
        "identity": {"sourceIp": call.client, "userAgent": call.header("user-agent") or None},
        "path": f"/{api.stage}{call.path}",
        "protocol": "HTTP/1.1",
        "requestId": call.request_id,
        "requestTime": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
        "requestTimeEpoch": int(now * 1000),
        "resourceId": "local",
        "resourcePath": route.resource,
        "stage": api.stage,
    }
