"""OpenAI-compatible chat endpoints: `POST <base>/chat/completions` (runtime specification 9).

`piecework/net/http_client.py` sends the request. Bodies of the endpoint never reach errors or logs; for a refused
request the log gets the status and the code that the endpoint states.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from piecework.errors import BadRequest, Refused, UpstreamFailed
from piecework.jsons import Json, canonical
from piecework.models.chat import Question, Reply, reply_of
from piecework.models.endings import CHAT, Ending, ending_of
from piecework.models.refusals import DECLINES, failure_of, status_in
from piecework.models.structured import FORM_NAME, is_closed
from piecework.net.addresses import AddressRefused, chosen_target
from piecework.net.envelopes import UNREADABLE, read_envelope
from piecework.net.http_client import BodyTooLarge, CallFailed, FetchTimedOut, HttpClient, Request, unpacked
from piecework.reasons import Warn, reason_in, silent, tell, word_of

BODY_LIMIT: Final = 1024 * 1024  # bytes of an answer; the largest output is 64 KiB, beside its reasoning
COMPLETIONS: Final = "/chat/completions"
TEXT_PARTS: Final = ("text", "output_text")  # other parts hold the reasoning
MODEL: Final = "model"


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
        warn: Warn = silent,
    ) -> None:
        self._url = completions_url(base_url)
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        self._tokens_member = tokens_member
        self._client = HttpClient(body_limit=body_limit, tls=tls)
        self._body_limit = body_limit
        self._warn = warn

    def ask(self, question: Question) -> Reply:
        """Raises as `Model.ask`."""
        headers = self._headers | ({"X-Amzn-Trace-Id": question.trace_id} if question.trace_id else {})
        status, raw = self._post(canonical(self._request(question)), headers, question.timeout_seconds)
        answer = _envelope(raw)
        is_failure = status != 200
        if (reason := _reason(answer, failed=is_failure)) or is_failure:
            tell(self._warn, MODEL, status=status, reason=reason)
        has_form = question.schema is not None or question.json_only
        if is_failure:
            raise failure_of(status, answer, has_form=has_form)
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
        try:
            fetched = self._client.send(Request("POST", chosen_target(self._url), headers, body), seconds)
            return fetched.status, unpacked(fetched, self._body_limit)
        except (AddressRefused, CallFailed) as failed:
            tell(self._warn, MODEL, reason=failed.why if isinstance(failed, CallFailed) else failed.code)
            if isinstance(failed, FetchTimedOut):
                raise UpstreamFailed("the model did not answer in time") from failed
            if isinstance(failed, BodyTooLarge):
                raise UpstreamFailed(f"the answer of the model's endpoint is over {self._body_limit} bytes") from failed
            raise UpstreamFailed("the model's endpoint is out of reach or closed the connection early") from failed


def _envelope(raw: bytes) -> Json:
    try:
        return read_envelope(raw)
    except BadRequest:
        return None


def completions_url(base_url: str) -> str:
    """The reference's rule: trim, drop trailing slashes, append `/chat/completions` unless it is there."""
    root = base_url.strip().rstrip("/")
    return root if root.endswith(COMPLETIONS) else root + COMPLETIONS


def read_reply(answer: Json, *, has_form: bool = False) -> Reply:
    """The first choice's text and the token counts; its end is checked first.

    Raises:
        Refused: the model or a filter declines.
        Retryable, QuestionRejected, UpstreamFailed: the answer states a failure, or does not hold a text.
    """
    if not isinstance(answer, dict):
        raise UpstreamFailed("the model's endpoint did not answer in JSON")
    choice = _first(answer.get("choices"))
    for told in (answer.get("error"), choice.get("error")):
        if told:  # beside a choice the error is not about the form, which the endpoint accepted
            raise failure_of(status_in(told), {"error": told}, has_form=has_form and not choice)
    message = _object(choice.get("message"))
    ending = ending_of(choice.get("finish_reason"), CHAT)
    refusal = message.get("refusal")
    if ending is Ending.DECLINED or (refusal and refusal is not UNREADABLE) or answer.get("choices") == []:
        raise Refused(DECLINES)
    if ending is Ending.FAILED:
        raise UpstreamFailed("the model's endpoint ended its answer early")
    text, is_cut = _text(message.get("content")) or _text(choice.get("text")), ending is Ending.CUT
    if not text and not is_cut:
        raise UpstreamFailed("the model's endpoint answered without a text")
    usage = _object(answer.get("usage"))
    spent, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return reply_of(text, is_cut=is_cut, input_tokens=spent, output_tokens=made)


def _reason(answer: Json, *, failed: bool) -> str:
    """A code for the log if the answer is not whole: an error's code, else the unusual end; empty if all is well."""
    choice = _first(answer.get("choices")) if isinstance(answer, dict) else {}
    end = choice.get("finish_reason")
    odd = word_of(end) if ending_of(end, CHAT) is not Ending.WHOLE else ""
    return reason_in(answer, failed=failed) or reason_in(choice, failed=False) or odd


def _first(choices: Any) -> dict[str, Any]:
    return _object(choices[0]) if isinstance(choices, list) and choices else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: Any) -> str:
    """A string, or the joined text parts that some servers send instead."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type", "text") in TEXT_PARTS]
        content = "".join(text for part in parts if isinstance(text := part.get("text"), str))
    return content.strip() if isinstance(content, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
