"""Proxy events as API Gateway and its imitators send them: nulls, base64, repeats, prefixes."""

import base64
import json

import pytest

from piecework.edge.http import BODY_LIMIT, Request, Response
from piecework.errors import BadRequest, TooLarge, Unauthorized, UnsupportedMediaType


def a_request(**members) -> Request:
    event = {
        **{"httpMethod": "POST", "resource": "/execute", "path": "/prod/execute"},
        **{"headers": {"Content-Type": "application/json"}, "body": "{}", "isBase64Encoded": False},
        "requestContext": {"authorizer": {"caller": "kernel-a"}},
    }
    return Request.from_event({**event, **members}, lambda: 29_000)


def test_an_event_of_nulls_is_an_empty_request():
    nulls = dict.fromkeys(("httpMethod", "resource", "path", "headers", "multiValueHeaders", "body", "requestContext"))

    request = Request.from_event(nulls, lambda: 0)

    assert (request.method, request.path, request.headers, request.body()) == ("GET", "/", {}, b"")
    with pytest.raises(Unauthorized):
        _ = request.caller


def test_header_names_are_told_in_any_case_and_repeats_are_kept():
    request = a_request(headers={"X-A": "2"}, multiValueHeaders={"X-A": ["1", "2"], "x-a": ["3"], "N": None})

    assert request.headers == {"x-a": ["1", "2", "3"], "n": []}
    assert request.header("x-a") == "1" and request.header("n") == "" and request.header("absent") == ""


@pytest.mark.parametrize(
    "value",
    ["application/json", "APPLICATION/JSON; charset=utf-8", " application/problem+json", 'application/json;x="a,b"'],
)
def test_json_media_types_are_accepted(value):
    assert a_request(headers={"CONTENT-TYPE": value}).json() == {}


@pytest.mark.parametrize(
    "value", ["text/plain", "", "application/jsonp", "application/json, text/plain", "xapplication/json"]
)
def test_other_media_types_are_not(value):
    with pytest.raises(UnsupportedMediaType):
        a_request(headers={"content-type": value}).json()


def test_base64_bodies_are_decoded():
    encoded = base64.b64encode(b'{"a":"\xc3\xa9"}').decode()

    assert a_request(body=encoded, isBase64Encoded=True).json() == {"a": "é"}


@pytest.mark.parametrize("body", ["{}", "e30", "e3 0=", "e30=\n", "é"])
def test_what_is_not_base64_is_refused_not_emptied(body):
    with pytest.raises(BadRequest):
        a_request(body=body, isBase64Encoded=True).body()


@pytest.mark.parametrize("is_base64", [False, True])
def test_the_size_is_measured_after_decoding(is_base64):
    def sized(size: int) -> Request:
        data = b"x" * size
        body = base64.b64encode(data).decode() if is_base64 else data.decode()
        return a_request(body=body, isBase64Encoded=is_base64)

    assert len(sized(BODY_LIMIT).body()) == BODY_LIMIT
    with pytest.raises(TooLarge):
        sized(BODY_LIMIT + 1).body()


def test_lone_surrogates_of_an_event_are_bad_json_not_a_crash():
    with pytest.raises(BadRequest):
        a_request(body='"\ud800"').json()


@pytest.mark.parametrize("body", ["[]", "1", "null", '"x"'])
def test_only_objects_are_messages(body):
    with pytest.raises(BadRequest):
        a_request(body=body).json_object()


@pytest.mark.parametrize(
    ("headers", "trace_id"),
    [
        (
            {"X-Amzn-Trace-Id": "Root=1-67891233-abcdef012345678912345678;Sampled=1"},
            "Root=1-67891233-abcdef012345678912345678",
        ),
        (
            {"traceparent": "00-67891233abcdef012345678912345678-00f067aa0ba902b7-01"},
            "Root=1-67891233-abcdef012345678912345678",
        ),
        ({"X-Amzn-Trace-Id": "Root=evil\r\nSet-Cookie: a=b"}, None),
        ({"traceparent": "junk"}, None),
        ({}, None),
    ],
)
def test_trace_ids_are_passed_on_only_when_well_formed(headers, trace_id):
    assert a_request(headers=headers).trace_id == trace_id


def test_an_answer_states_its_type_and_carries_the_trace():
    answer = Response(200, b"{}", {"X-A": "1"}).to_proxy("Root=1-0-0")

    assert answer["headers"] == {"Content-Type": "application/json", "X-A": "1", "X-Amzn-Trace-Id": "Root=1-0-0"}
    assert json.dumps(answer) and answer["isBase64Encoded"] is False


def test_binary_answers_are_base64():
    answer = Response(200, b"\xff\x00", is_binary=True).to_proxy()

    assert (answer["body"], answer["isBase64Encoded"]) == ("/wA=", True)
