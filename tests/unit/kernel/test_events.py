"""Events of API Gateway reach the kernel door's application as their senders meant them, through Mangum."""

import base64
import json
from types import SimpleNamespace

import pytest

from kernel.http.events import refused, repaired
from piecework.errors import BadRequest
from tests.support.kernel.mangum_calls import through_mangum


def an_event(**members):
    return {
        "resource": "/{proxy+}",
        "path": "/v0/executions",
        "httpMethod": "GET",
        "headers": {"Host": "kernel.example.com"},
        "multiValueHeaders": {"Host": ["kernel.example.com"]},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": {"proxy": "v0/executions"},
        "requestContext": {"identity": {"sourceIp": "192.0.2.10"}, "stage": "prod"},
        "body": None,
        "isBase64Encoded": False,
        **members,
    }


def seen(event):
    """What an application behind Mangum sees: its scope and the body."""
    found = SimpleNamespace(body=b"")

    async def app(scope, receive, send):
        found.path, found.query = scope["path"], scope["query_string"].decode()
        found.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        found.body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    answer = through_mangum(app, repaired(event))
    assert answer["statusCode"] == 200
    return found


@pytest.mark.parametrize("headers", [None, {}])
def test_a_request_may_have_no_headers(headers):
    assert seen(an_event(headers=headers, multiValueHeaders=None)).path == "/v0/executions"


def test_headers_may_come_in_one_form_only():
    event = an_event(headers={"X-Request-ID": "abc-1", "X-Odd": None}, multiValueHeaders=None)

    assert seen(event).headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("host", ["[2001:db8::1]", "[2001:db8::1]:443", "2001:db8::1"])
def test_a_host_may_be_an_ipv6_address(host):
    assert seen(an_event(headers={"host": host}, multiValueHeaders={"host": [host]})).path == "/v0/executions"


def test_repeated_headers_are_all_seen():
    event = an_event(headers={"Accept": "b"}, multiValueHeaders={"Accept": ["a", "b"], "X-None": []})

    assert seen(event).headers == {"accept": "a, b"}


def test_a_body_that_is_no_base64_is_refused():
    for body in ("!", "e30", "e30=\n*"):
        with pytest.raises(BadRequest):
            repaired(an_event(body=body, isBase64Encoded=True))
    answer = refused("the body is not base64")
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["code"] == "VALIDATION_ERROR"
    assert len(answer["headers"]["x-request-id"]) == 36


def test_bodies_arrive_as_bytes():
    text = '{"agent_id":"ü"}'

    assert seen(an_event(body=text)).body == text.encode()
    assert seen(an_event(body=base64.b64encode(text.encode()).decode(), isBase64Encoded=True)).body == text.encode()


@pytest.mark.parametrize("name", ["50%25", "50%", "ü b", "a+b", "a?b#c", "%2e%2e"])
def test_a_path_is_not_decoded_twice(name):
    path = f"/v0/runners/{name}/results"

    assert seen(an_event(path=path, pathParameters={"proxy": path[1:]})).path == path


def test_a_path_that_is_not_text_does_not_stop_the_function():
    assert seen(an_event(path="/v0/\ud800", pathParameters=None)).path == "/v0/?"


@pytest.mark.parametrize("base", ["", "/prod", "/kernel", "/kernel/v0"])
@pytest.mark.parametrize(
    ("proxy", "path"),
    [
        ("v0/executions", "/v0/executions"),
        ("v0/executions", "/v0/executions/"),
        ("v0/runners/%C3%BC", "/v0/runners/ü"),
        ("v0/executions/v0", "/v0/executions/v0"),
    ],
)
def test_a_base_path_or_a_stage_is_no_part_of_the_path(base, proxy, path):
    assert seen(an_event(path=base + path, pathParameters={"proxy": proxy})).path == path


def test_a_resource_that_names_its_parameters_has_no_base_path_either():
    resource, parameters = "/v0/executions/{id}/cancel", {"id": "x"}
    event = an_event(resource=resource, path="/kernel/v0/executions/x/cancel", pathParameters=parameters)

    assert seen(event).path == "/v0/executions/x/cancel"
    assert seen(an_event(resource="/", path="/kernel", pathParameters=None)).path == "/"
    assert seen(an_event(resource="/", path="/", pathParameters=None)).path == "/"


def test_repeated_and_odd_query_parameters_arrive_as_they_were_sent():
    many = {"label": ["a:1", "b:ü&=%"], "limit": ["2"]}
    event = an_event(queryStringParameters={"label": "b:ü&=%", "limit": "2"}, multiValueQueryStringParameters=many)

    assert seen(event).query == "label=a%3A1&label=b%3A%C3%BC%26%3D%25&limit=2"
    assert seen(an_event(queryStringParameters={"limit": "2"})).query == "limit=2"
    assert seen(an_event()).query == ""
