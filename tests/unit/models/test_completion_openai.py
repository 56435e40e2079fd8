"""OpenAI-compatible endpoints, over real sockets: what is sent, and what becomes of every kind of answer."""

import json
import socket
import ssl
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from local.model_server import GOOD, INNER_TEXT, USAGE, ModelServer
from piecework.errors import Refused, Retryable, UpstreamFailed
from piecework.models.chat import TEXT_CHARACTERS, Question, QuestionRejected, Turn
from piecework.models.openai import OpenAiModel, completions_url, read_reply
from piecework.models.structured import is_closed
from tests.support.servers import CERTIFICATE

QUESTION = Question(model="m-1", system="be exact", turns=(Turn("user", "hello"),), max_tokens=64, timeout_seconds=20)
CLOSED = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}, "additionalProperties": False}


@pytest.fixture
def server():
    with ModelServer(key="k-secret") as server:
        yield server


def ask(server, *script, question=QUESTION, key="k-secret", **options):
    server.follow(script)
    return OpenAiModel(server.url, key, **options).ask(question)


def test_a_question_is_sent_as_the_reference_sends_it(server):
    reply = ask(server, "good", question=replace(QUESTION, temperature=0.2, trace_id="Root=1-a-b"))

    (call,) = server.calls
    assert call["path"] == "/v1/chat/completions"
    assert call["headers"]["authorization"] == "Bearer k-secret"
    assert call["headers"]["x-amzn-trace-id"] == "Root=1-a-b"
    assert call["body"] == {
        "model": "m-1",
        "temperature": 0.2,
        "max_tokens": 64,
        "messages": [{"role": "system", "content": "be exact"}, {"role": "user", "content": "hello"}],
    }
    assert (reply.text, reply.is_cut) == (GOOD, False)
    assert (reply.input_tokens, reply.output_tokens) == (USAGE["prompt_tokens"], USAGE["completion_tokens"])


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), ({"type": "object"}, False)])
def test_a_schema_is_sent_as_the_form_of_the_answer(server, schema, strict):
    ask(server, "good", question=replace(QUESTION, schema=schema))

    form = server.calls[0]["body"]["response_format"]
    assert form["type"] == "json_schema"
    assert (form["json_schema"]["schema"], form["json_schema"]["strict"]) == (schema, strict)


def test_json_alone_can_be_asked_for_and_tokens_named_otherwise(server):
    ask(server, "good", question=replace(QUESTION, json_only=True), tokens_member="max_completion_tokens")

    body = server.calls[0]["body"]
    assert body["response_format"] == {"type": "json_object"}
    assert body["max_completion_tokens"] == 64
    assert "max_tokens" not in body
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("throttled", Retryable),
        ("error:503", Retryable),
        ("error:529", Retryable),
        ("error:500", UpstreamFailed),
        ("error:502", UpstreamFailed),
        ("error:401", UpstreamFailed),
        ("error:404", UpstreamFailed),
        ("error:400", QuestionRejected),
        ("error:422", QuestionRejected),
        ("redirect", UpstreamFailed),
        ("empty", UpstreamFailed),
        ("notjson", UpstreamFailed),
        ("huge", UpstreamFailed),
        ("hangup", UpstreamFailed),
        ("refusal", Refused),
    ],
)
def test_every_failure_has_its_kind_and_tells_nothing_of_the_endpoints_text(server, word, kind):
    with pytest.raises(kind) as raised:
        ask(server, word)

    assert type(raised.value) is kind
    assert INNER_TEXT not in raised.value.message
    assert "k-secret" not in raised.value.message
    assert len(server.calls) == 1


def test_a_wrong_key_fails_without_being_told(server):
    with pytest.raises(UpstreamFailed) as raised:
        ask(server, "good", key="k-wrong")

    assert "k-wrong" not in raised.value.message


@pytest.mark.parametrize("word", ["slow:60", "drip:60"])
def test_a_slow_or_dripping_answer_ends_at_the_deadline(server, word):
    began = time.monotonic()

    with pytest.raises(UpstreamFailed, match="in time"):
        ask(server, word, question=replace(QUESTION, timeout_seconds=0.4))

    assert time.monotonic() - began < 30


def test_an_answer_in_many_pieces_is_put_together(server):
    assert ask(server, "drip:0.2").text == GOOD


def test_a_port_where_nobody_listens_is_a_failure():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(UpstreamFailed, match="out of reach"):
        OpenAiModel(f"http://127.0.0.1:{port}", "k").ask(QUESTION)


@pytest.fixture
def evidence_test(monkeypatch):
    """The name of the test certificate leads to this machine."""
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: real("127.0.0.1", *rest))


@contextmanager
def a_tls_server(*script):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    with ModelServer(*script) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        yield f"https://evidence.test:{server.server_address[1]}/v1"


def trusting():
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def test_an_endpoint_with_a_trusted_certificate_is_asked_over_tls(evidence_test):
    with a_tls_server("good") as url:
        assert OpenAiModel(url, "k", tls=trusting()).ask(QUESTION).text == GOOD


def test_an_endpoint_with_an_unknown_certificate_never_sees_the_key(evidence_test):
    with a_tls_server("good") as url, pytest.raises(UpstreamFailed, match="out of reach"):
        OpenAiModel(url, "k").ask(QUESTION)


def test_a_trusted_certificate_for_another_name_is_refused(evidence_test):
    with a_tls_server("good") as url, pytest.raises(UpstreamFailed, match="out of reach"):
        OpenAiModel(url.replace("evidence.test", "other.test"), "k", tls=trusting()).ask(QUESTION)


def test_a_dripping_answer_over_tls_ends_at_the_deadline(evidence_test):
    began = time.monotonic()

    with a_tls_server("drip:60") as url, pytest.raises(UpstreamFailed, match="in time"):
        OpenAiModel(url, "k", tls=trusting()).ask(replace(QUESTION, timeout_seconds=0.4))

    assert time.monotonic() - began < 30


@pytest.mark.parametrize("base", ["http://h/v1", " http://h/v1// ", "http://h/v1/chat/completions"])
def test_the_base_url_gets_its_path_once(base):
    assert completions_url(base) == "http://h/v1/chat/completions"


def test_an_answer_cut_by_its_token_limit_says_so(server):
    assert ask(server, "cut").is_cut is True


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": " hi "}},
        {"text": "hi"},
        {"message": {"content": None}, "text": "hi"},
        {"message": {"content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}},
    ],
)
def test_text_is_found_where_servers_put_it(choice):
    reply = read_reply({"choices": [choice]})

    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("hi", 0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": "x"},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]},
        {"error": {"message": INNER_TEXT}},
    ],
)
def test_an_answer_without_text_is_a_failure(answer):
    with pytest.raises(UpstreamFailed) as raised:
        read_reply(answer)

    assert INNER_TEXT not in raised.value.message


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "7"}, {"prompt_tokens": -1}])
def test_odd_usage_counts_nothing(usage):
    assert read_reply({"choices": [{"text": "hi"}], "usage": usage}).input_tokens == 0


def test_a_filtered_answer_is_refused():
    with pytest.raises(Refused):
        read_reply({"choices": [{"message": {"content": "x"}, "finish_reason": "content_filter"}]})


def test_a_very_long_text_is_kept_in_part():
    reply = read_reply({"choices": [{"text": "x" * (TEXT_CHARACTERS + 1)}]})

    assert (len(reply.text), reply.is_cut) == (TEXT_CHARACTERS, True)


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (CLOSED, True),
        ({"type": "string"}, True),
        ({"type": "object"}, False),
        (CLOSED | {"required": []}, False),
        (CLOSED | {"properties": {"a": {"type": "object"}}}, False),
        ({"anyOf": [CLOSED, {"type": ["object", "null"]}]}, False),
        ({**CLOSED, "required": ["properties"], "properties": {"properties": {"type": "string"}}}, True),
    ],
)
def test_strict_forms_are_asked_for_closed_schemas_only(schema, closed):
    assert is_closed(schema) is closed


def test_the_scripted_server_tells_what_it_was_asked_and_starts_over(server):
    ask(server, "good")

    from urllib.request import Request, urlopen

    root = server.url.removesuffix("/v1")
    with urlopen(f"{root}/calls") as answer:
        assert json.load(answer)["calls"][0]["body"]["model"] == "m-1"
    with urlopen(Request(f"{root}/script", data=b'["throttled"]', method="PUT")):
        assert server.calls == []
