"""Turns events of API Gateway into requests to a web application, and its answers back, like the Lambda Web Adapter."""

import base64
import json
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote, urlencode

from local.gateway.events import Call
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.routes import Function
from local.gateway.web_app import WebApp


class WebPool:
    """One process of a web application, invoked like any other function."""

    def __init__(self, function: Function, variables: Mapping[str, str], log: IO[Any]) -> None:
        self._app = WebApp(function, variables, log)

    async def open(self) -> None:
        await self._app.open()

    async def close(self) -> None:
        await self._app.close()

    async def invoke(self, invocation: Invocation) -> bytes:
        """The proxy answer to an event."""
        event: Mapping[str, Any] = json.loads(invocation.payload)
        answer = await self._app.forward(call_of(event, invocation), event["requestContext"])
        body = b"".join([bytes(part) async for part in answer.body_iterator])  # type: ignore[attr-defined]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.raw_headers}
        told = {"statusCode": answer.status_code, "headers": headers, "body": base64.b64encode(body).decode()}
        return json.dumps({**told, "isBase64Encoded": True}).encode()


def call_of(event: Mapping[str, Any], invocation: Invocation) -> Call:
    """The request in a proxy event."""
    many = event.get("multiValueHeaders") or {}
    text = event.get("body") or ""
    return Call(
        method=event["httpMethod"],
        path=quote(event["path"]),
        query=urlencode(event.get("multiValueQueryStringParameters") or {}, doseq=True),
        headers=tuple((name, value) for name, values in many.items() for value in values),
        body=base64.b64decode(text) if event.get("isBase64Encoded") else text.encode(),
        client=event["requestContext"]["identity"]["sourceIp"],
        request_id=invocation.request_id,
        trace_id=invocation.trace_id,
    )
