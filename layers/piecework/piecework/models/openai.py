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

from piecework.errors import BadRequest, Refused, Retryable, UpstreamFailed
from piecework.fetching import Cutoff
from piecework.jsons import Json, canonical, loads
from piecework.models.chat import Question, QuestionRejected, Reply, shortened
from piecework.models.structured import FORM_NAME, is_closed

BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer; the largest output is 64 KiB, reasoning text may come with it
CHUNK: Final = 64 * 1024
COMPLETIONS: Final = "/chat/completions"
OVERLOADED: Final = frozenset({429, 503, 529})
REJECTED: Final = frozenset({400, 415, 422})
DECLINED: Final = "content_filter"
CUT: Final = "length"
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
        if status != 200:
            raise _failure(status)
        try:
            answer = loads(raw)
        except BadRequest as error:
            raise UpstreamFailed("the model's endpoint did not answer in JSON") from error
        return read_reply(answer)

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


def completions_url(base_url: str) -> str:
    """The reference's rule: trimmed, no trailing slash, `/chat/completions` appended unless already there."""
    root = base_url.strip().rstrip("/")
    return root if root.endswith(COMPLETIONS) else root + COMPLETIONS


def read_reply(answer: Json) -> Reply:
    """The first choice's text and the token counts.

    Raises:
        Refused: the model declines.
        UpstreamFailed: there is no text.
    """
    choice = _first(answer.get("choices")) if isinstance(answer, dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    if choice.get("finish_reason") == DECLINED or message.get("refusal"):
        raise Refused("the model declines this task")
    text = _text(message.get("content")) or _text(choice.get("text"))
    is_cut = choice.get("finish_reason") == CUT
    if not text:
        raise UpstreamFailed(
            "the model spent its tokens before it answered" if is_cut else "the model's endpoint answered no text"
        )
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    kept, is_cut = shortened(text, is_cut)
    return Reply(kept, is_cut, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _failure(status: int) -> Retryable:
    if status in OVERLOADED:
        return Retryable("the model is throttled or overloaded; try again")
    kind = QuestionRejected if status in REJECTED else UpstreamFailed
    return kind(f"the model's endpoint answered HTTP {status}")


def _text(content: Any) -> str:
    """A string, or the joined text parts that some servers answer instead."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content.strip() if isinstance(content, str) else ""


def _first(choices: Any) -> dict[str, Any]:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()  # reading the machine's certificates takes tens of milliseconds
