"""OpenAI-compatible chat endpoints: `POST <base>/chat/completions` (runtime specification 9).

urllib3 connects and checks certificates; a watchdog shuts the socket at the deadline, because a time-out per read would
let a dripping endpoint outlive it. No redirect is followed, since it could carry the key elsewhere, and no connection
is kept between calls: a thawed environment would find it dead. Bodies of the endpoint never reach errors or logs.
"""

import http.client
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from piecework.envelopes import read_envelope
from piecework.errors import BadRequest, Refused, UpstreamFailed
from piecework.fetching import Cutoff
from piecework.jsons import Json, canonical
from piecework.models.chat import Question, Reply, reply_of
from piecework.models.endings import CHAT, Ending, ending_of
from piecework.models.refusals import DECLINES, failure_of, status_in
from piecework.models.structured import FORM_NAME, is_closed

BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer; the largest output is 64 KiB, reasoning text may come with it
CHUNK: Final = 64 * 1024
COMPLETIONS: Final = "/chat/completions"
TOO_SLOW: Final = (TimeoutError, urllib3.exceptions.ReadTimeoutError)
# ValueError is what a TLS socket says when it is shut while somebody reads.
BROKEN: Final = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError)


class OpenAiModel:
    """A chat model behind an OpenAI-compatible endpoint."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        tokens_member: str = "max_tokens",
        body_limit: int = BODY_LIMIT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        url = completions_url(base_url)
        self._target = urlsplit(url)
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        self._tokens_member = tokens_member
        self._body_limit = body_limit
        self._tls = tls

    def ask(self, question: Question) -> Reply:
        """Raises as `Model.ask`."""
        request = canonical(self._request(question))
        headers = self._headers | ({"X-Amzn-Trace-Id": question.trace_id} if question.trace_id else {})
        status, raw = self._post(request, headers, question.timeout_seconds)
        has_form = question.schema is not None or question.json_only
        if status != 200:
            raise failure_of(status, _envelope(raw), has_form=has_form)
        try:
            answer = read_envelope(raw)
        except BadRequest as error:
            raise UpstreamFailed("the model's endpoint did not answer in JSON") from error
        return read_reply(answer, has_form=has_form)

    def _request(self, question: Question) -> dict[str, Json]:
        turns = [{"role": turn.role, "content": turn.text} for turn in question.turns]
        request: dict[str, Json] = {
            "model": question.model,
            "messages": [{"role": "system", "content": question.system}, *turns],
            self._tokens_member: question.max_tokens,
        }
        if question.temperature is not None:
            request["temperature"] = question.temperature
        if question.schema is not None:
            form = {"name": FORM_NAME, "schema": question.schema, "strict": is_closed(question.schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        elif question.json_only:
            request["response_format"] = {"type": "json_object"}
        return request

    def _post(self, body: bytes, headers: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        with Cutoff(seconds) as cutoff:
            connection = self._connection(seconds)
            try:
                connection.connect()
                if connection.sock is not None:
                    cutoff.watch(connection.sock)
                path = self._target.path + (f"?{self._target.query}" if self._target.query else "")
                connection.request("POST", path, body=body, headers=headers, preload_content=False)
                response = connection.getresponse()
                raw = self._read(response)
                cutoff.remaining()  # a socket that was shut reads like an answer that ended
            except BROKEN as error:
                if cutoff.expired or isinstance(error, TOO_SLOW):
                    raise UpstreamFailed("the model did not answer in time") from error
                raise UpstreamFailed("the model's endpoint is out of reach or broke off") from error
            finally:
                connection.close()
        return response.status, raw

    def _connection(self, seconds: float) -> HTTPConnection:
        host, port = self._target.hostname or "", self._target.port
        if self._target.scheme == "https":
            return HTTPSConnection(host, port, timeout=seconds, ssl_context=self._tls or _trusted())
        return HTTPConnection(host, port, timeout=seconds)

    def _read(self, response: urllib3.BaseHTTPResponse) -> bytes:
        body = bytearray()
        while chunk := response.read1(CHUNK):
            body += chunk
            if len(body) > self._body_limit:
                raise UpstreamFailed(f"the model's endpoint answered more than {self._body_limit} bytes")
        return bytes(body)


def _envelope(raw: bytes) -> Json:
    try:
        return read_envelope(raw)
    except BadRequest:
        return None


def completions_url(base_url: str) -> str:
    """The reference's rule: trimmed, no trailing slash, `/chat/completions` appended unless already there."""
    root = base_url.strip().rstrip("/")
    return root if root.endswith(COMPLETIONS) else root + COMPLETIONS


def read_reply(answer: Json, *, has_form: bool = False) -> Reply:
    """The first choice's text and the token counts; how it ended comes first.

    Raises:
        Refused: the model or a filter declines.
        Retryable, QuestionRejected, UpstreamFailed: the answer says that it failed, or there is no text.
    """
    envelope = answer if isinstance(answer, dict) else {}
    choices = envelope.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    for told in (envelope.get("error"), choice.get("error")):
        if told:
            raise failure_of(status_in(told), {"error": told}, has_form=has_form and not choice)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    ending = ending_of(choice.get("finish_reason"), CHAT)
    if ending is Ending.DECLINED or message.get("refusal") or choices == []:
        raise Refused(DECLINES)
    if ending is Ending.FAILED:
        raise UpstreamFailed("the model's endpoint broke its answer off")
    text = _text(message.get("content")) or _text(choice.get("text"))
    is_cut = ending is Ending.CUT
    if not text and not is_cut:
        raise UpstreamFailed("the model's endpoint answered no text")
    usage = envelope.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return reply_of(
        text,
        is_cut=is_cut,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _text(content: Any) -> str:
    """A string, or the joined text parts that some servers answer instead."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return content.strip() if isinstance(content, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()  # reading the machine's certificates takes tens of milliseconds
