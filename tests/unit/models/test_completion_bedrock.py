"""Amazon Bedrock's Converse behind botocore's stubber: what is sent, and what becomes of every kind of answer."""

import json
from dataclasses import replace

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, ParamValidationError, ReadTimeoutError
from botocore.stub import Stubber

from piecework.aws.bedrock import BedrockModel, bedrock_client
from piecework.errors import Refused, Retryable, UpstreamFailed
from piecework.models.chat import Question, QuestionRejected, Turn

SCHEMA = {"type": "object", "additionalProperties": False, "properties": {}}
QUESTION = Question(
    model="anthropic.model-1",
    system="be exact",
    turns=(Turn("user", "hello"), Turn("assistant", "hm"), Turn("user", "again")),
    max_tokens=64,
    timeout_seconds=20,
    temperature=0.2,
)
REQUEST = {
    "modelId": "anthropic.model-1",
    "system": [{"text": "be exact"}],
    "messages": [
        {"role": "user", "content": [{"text": "hello"}]},
        {"role": "assistant", "content": [{"text": "hm"}]},
        {"role": "user", "content": [{"text": "again"}]},
    ],
    "inferenceConfig": {"maxTokens": 64, "temperature": 0.2},
}


def an_answer(*texts, reason="end_turn"):
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text} for text in texts]}},
        "stopReason": reason,
        "usage": {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18},
        "metrics": {"latencyMs": 5},
    }


@pytest.fixture
def stubbed():
    client = boto3.client(
        "bedrock-runtime", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()
    client.close()


def ask(stubbed, question=QUESTION):
    return BedrockModel(lambda seconds: stubbed.client).ask(question)


def test_a_question_is_sent_as_converse_takes_it(stubbed):
    stubbed.add_response("converse", an_answer("he", "llo"), REQUEST)

    reply = ask(stubbed)

    assert (reply.text, reply.is_cut, reply.input_tokens, reply.output_tokens) == ("hello", False, 11, 7)


def test_a_schema_and_the_trace_id_go_along(stubbed):
    form = {"name": "candidate_output", "schema": json.dumps(SCHEMA, sort_keys=True, separators=(",", ":"))}
    more = {
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": form}}},
        "requestMetadata": {"trace_id": "Root=1-a-b"},
    }
    stubbed.add_response("converse", an_answer("{}"), REQUEST | more)

    assert ask(stubbed, replace(QUESTION, schema=SCHEMA, trace_id="Root=1-a-b\x00")).text == "{}"


def test_a_temperature_can_be_left_to_the_model(stubbed):
    stubbed.add_response("converse", an_answer("hi"), REQUEST | {"inferenceConfig": {"maxTokens": 64}})

    assert ask(stubbed, replace(QUESTION, temperature=None)).text == "hi"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", Retryable),
        ("ServiceUnavailableException", Retryable),
        ("ModelNotReadyException", Retryable),
        ("ModelTimeoutException", UpstreamFailed),
        ("InternalServerException", UpstreamFailed),
        ("ModelErrorException", UpstreamFailed),
        ("AccessDeniedException", UpstreamFailed),
        ("ResourceNotFoundException", UpstreamFailed),
        ("ValidationException", QuestionRejected),
    ],
)
def test_every_error_has_its_kind_and_tells_nothing_of_its_text(stubbed, code, kind):
    stubbed.add_client_error("converse", code, "arn:aws:secret text", 400)

    with pytest.raises(kind) as raised:
        ask(stubbed)

    assert type(raised.value) is kind
    assert "secret text" not in raised.value.message


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_declined_task_is_refused(stubbed, reason):
    stubbed.add_response("converse", an_answer("blocked", reason=reason), REQUEST)

    with pytest.raises(Refused):
        ask(stubbed)


@pytest.mark.parametrize(("texts", "reason"), [((), "end_turn"), ((" ",), "stop_sequence")])
def test_an_answer_without_text_is_a_failure(stubbed, texts, reason):
    stubbed.add_response("converse", an_answer(*texts, reason=reason), REQUEST)

    with pytest.raises(UpstreamFailed):
        ask(stubbed)


def test_an_answer_cut_by_its_token_limit_says_so(stubbed):
    stubbed.add_response("converse", an_answer('{"a', reason="max_tokens"), REQUEST)

    assert ask(stubbed).is_cut is True


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ReadTimeoutError(endpoint_url="https://inner"), UpstreamFailed, "in time"),
        (EndpointConnectionError(endpoint_url="https://inner"), UpstreamFailed, "out of reach"),
        (ParamValidationError(report="inner"), QuestionRejected, "does not take"),
    ],
)
def test_failures_of_the_connection_have_their_kind(error, kind, text):
    class Broken:
        def converse(self, **request):
            raise error

    with pytest.raises(kind, match=text) as raised:
        BedrockModel(lambda seconds: Broken()).ask(QUESTION)
    assert "inner" not in raised.value.message


@pytest.mark.parametrize(("timeout", "read"), [(0.5, 1), (4, 1), (5, 3), (20, 18), (60, 58), (500, 108)])
def test_a_call_uses_the_longest_client_that_ends_in_time(timeout, read):
    asked = []

    class Quick:
        def converse(self, **request):
            return an_answer("hi")

    BedrockModel(lambda seconds: asked.append(seconds) or Quick()).ask(replace(QUESTION, timeout_seconds=timeout))

    assert asked == [read]


def test_the_client_tries_once_and_is_made_once_per_time_out(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bedrock_client.cache_clear()

    client = bedrock_client(3)

    assert client is bedrock_client(3)
    assert client.meta.config.read_timeout == 3
    assert client.meta.config.retries["total_max_attempts"] == 1
    client.close()
    bedrock_client.cache_clear()
