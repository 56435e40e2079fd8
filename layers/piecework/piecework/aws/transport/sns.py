"""SNS's one operation that we use, in its own words; SNS takes forms and answers XML, of which nothing is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from piecework.aws.transport.caller import Caller, Request, refusal
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import endpoint_of, region_of

VERSION: Final = "2010-03-31"
FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"
OK: Final = 200


class SNS:
    """A client for one endpoint. Every method raises ServiceRefused, NoAnswer or NotConfigured."""

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env

    def publish(
        self, *, TopicArn: str, Message: str, Subject: str, MessageAttributes: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Any]:
        """Publish one message; attributes are texts."""
        form = {"Action": "Publish", "Version": VERSION, "TopicArn": TopicArn, "Message": Message, "Subject": Subject}
        for number, (name, value) in enumerate(MessageAttributes.items(), 1):
            place = f"MessageAttributes.entry.{number}"
            form |= {f"{place}.Name": name, f"{place}.Value.DataType": value["DataType"]}
            form[f"{place}.Value.StringValue"] = value["StringValue"]
        region = region_of(self._env)
        endpoint = endpoint_of("sns", self._env, region)
        request = Request(
            operation="Publish",
            origin=endpoint.origin,
            region=region,
            service="sns",
            path=endpoint.path or "/",
            headers={"content-type": FORM},
            body=urlencode(form).encode("ascii"),
        )
        found: dict[str, Any] = self._caller.call(request, _read)
        return found


def _read(request: Request, answer: Answer) -> dict[str, Any]:
    if answer.status == OK:
        return {}
    code = _between(answer.body, b"<Code>", b"</Code>") or str(answer.status)
    message = _between(answer.body, b"<Message>", b"</Message>")
    raise refusal(request, answer, code, message, {})


def _between(body: bytes, begin: bytes, end: bytes) -> str:
    return body.partition(begin)[2].partition(end)[0].decode("utf-8", "replace")
