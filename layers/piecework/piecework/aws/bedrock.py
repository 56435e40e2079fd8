"""Amazon Bedrock's Converse, one attempt per call; the client is made when the first question needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ParamValidationError, ReadTimeoutError

from piecework.errors import Refused, Retryable, UpstreamFailed
from piecework.jsons import Json, canonical
from piecework.models.chat import Question, QuestionRejected, Reply, reply_of
from piecework.models.endings import CONVERSE, Ending, ending_of
from piecework.models.refusals import DECLINES
from piecework.models.structured import FORM_NAME

READ_SECONDS: Final = (
    1,
    3,
    6,
    10,
    14,
    18,
    28,
    58,
    108,
)  # a client's time-out is fixed: one client each, made when needed
CONNECT_SECONDS: Final = 2.0
OVERLOADED: Final = frozenset(
    {"ThrottlingException", "ServiceUnavailableException", "ModelNotReadyException", "TooManyRequestsException"}
)
REJECTED: Final = "ValidationException"
_NOT_METADATA: Final = re.compile(r"[^a-zA-Z0-9\s:_@$#=/+,.-]")


class ConverseClient(Protocol):
    """The part of boto3's bedrock-runtime client that is used."""

    def converse(self, **request: Any) -> Mapping[str, Any]: ...


class BedrockModel:
    """A model behind Bedrock; `client_for` gives a client with that read time-out in seconds."""

    def __init__(self, client_for: Callable[[int], ConverseClient]) -> None:
        self._client_for = client_for

    def ask(self, question: Question) -> Reply:
        """Raises as `Model.ask`."""
        room = question.timeout_seconds - CONNECT_SECONDS
        seconds = max((step for step in READ_SECONDS if step <= room), default=READ_SECONDS[0])
        try:
            answer = self._client_for(seconds).converse(**to_request(question))
        except ClientError as error:
            raise _failure(str(error.response.get("Error", {}).get("Code", ""))) from error
        except ParamValidationError as error:
            raise QuestionRejected("Bedrock does not take this request") from error
        except (ReadTimeoutError, ConnectTimeoutError) as error:
            raise UpstreamFailed("the model did not answer in time") from error
        except BotoCoreError as error:
            raise UpstreamFailed("Bedrock is out of reach") from error
        return from_answer(answer)


@cache
def bedrock_client(read_seconds: int) -> ConverseClient:
    """A client that tries once: a second try would pay twice and outlive the deadline."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    client: ConverseClient = boto3.client("bedrock-runtime", config=config)
    return client


def to_request(question: Question) -> dict[str, Any]:
    """A question as Converse takes it."""
    inference: dict[str, Any] = {"maxTokens": question.max_tokens}
    if question.temperature is not None:
        inference["temperature"] = question.temperature
    request: dict[str, Any] = {
        "modelId": question.model,
        "system": [{"text": question.system}],
        "messages": [{"role": turn.role, "content": [{"text": turn.text}]} for turn in question.turns],
        "inferenceConfig": inference,
    }
    if question.schema is not None:
        request["outputConfig"] = {"textFormat": _text_format(question.schema)}
    if question.trace_id:
        request["requestMetadata"] = {"trace_id": _NOT_METADATA.sub("", question.trace_id)}
    return request


def from_answer(answer: Mapping[str, Any]) -> Reply:
    """The text blocks of an answer and its token counts; how it ended comes first.

    Raises:
        Refused: a guardrail or the model declines.
        UpstreamFailed: it was broken off, or it does not hold a text.
    """
    ending = ending_of(answer.get("stopReason"), CONVERSE)
    if ending is Ending.DECLINED:
        raise Refused(DECLINES)
    if ending is Ending.FAILED:
        raise UpstreamFailed("Bedrock broke the model's answer off")
    blocks = answer.get("output", {}).get("message", {}).get("content", ())
    text = "".join(block.get("text", "") for block in blocks).strip()
    is_cut = ending is Ending.CUT
    if not text and not is_cut:
        raise UpstreamFailed("no text came back")
    usage = answer.get("usage", {})
    input_tokens, output_tokens = int(usage.get("inputTokens", 0)), int(usage.get("outputTokens", 0))
    return reply_of(text, is_cut=is_cut, input_tokens=input_tokens, output_tokens=output_tokens)


def _text_format(schema: Json) -> dict[str, Any]:
    definition = {"name": FORM_NAME, "schema": canonical(schema).decode("utf-8")}
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


def _failure(code: str) -> Retryable:
    if code in OVERLOADED:
        return Retryable("the model is throttled or overloaded; try again")
    if code == REJECTED:
        return QuestionRejected("Bedrock does not take this request")
    return UpstreamFailed(f"Bedrock answered {code or 'an error without a name'}")
