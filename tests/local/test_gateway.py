"""The local API Gateway and Lambda behave as the template says and as AWS does."""

import base64
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import httpx
import pytest

from tests.support.machine import Gateways, RunningGateway, children, wait_until
from tests.support.runtime.requests import an_execute_request

BUNDLE = Path(__file__).parent / "bundle" / "template.yaml"
CALLER = {"authorization": "alice"}
PROBE = "probe.app.handler"


@pytest.fixture(scope="module")
def edge(gateway: Gateways) -> RunningGateway:
    return gateway(api="ProbeApi", template=BUNDLE)


@pytest.fixture
def fresh_edge(gateway: Gateways) -> Iterator[RunningGateway]:
    running = gateway(api="ProbeApi", template=BUNDLE, fresh=True)
    yield running
    running.close()


def test_an_event_has_the_shape_of_a_rest_proxy_event(edge):
    headers = [*CALLER.items(), ("x-many", "1"), ("x-many", "2"), ("content-type", "application/json")]

    answer = edge.http.post("/probe?a=1&a=2&b=%20", content=b'{"k":"\xc3\xa9"}', headers=headers)

    event = answer.json()["event"]
    assert event["resource"] == event["path"] == "/probe"
    assert event["httpMethod"] == "POST"
    assert event["headers"]["x-many"] == "2"
    assert event["multiValueHeaders"]["x-many"] == ["1", "2"]
    assert event["queryStringParameters"] == {"a": "2", "b": " "}
    assert event["multiValueQueryStringParameters"] == {"a": ["1", "2"], "b": [" "]}
    assert event["pathParameters"] is None
    assert event["stageVariables"] is None
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b'{"k":"\xc3\xa9"}'
    context = event["requestContext"]
    assert (context["stage"], context["path"], context["resourcePath"]) == ("prod", "/prod/probe", "/probe")
    assert context["identity"]["sourceIp"] == "127.0.0.1"
    assert context["authorizer"] == {
        "principalId": "alice",
        "integrationLatency": 0,
        "caller": "alice",
        "admin": "true",
        "rank": "3",
    }


def test_a_client_does_not_choose_its_source_address(edge):
    event = edge.http.put("/probe", headers={"x-forwarded-for": "203.0.113.7"}).json()["event"]

    assert event["headers"]["x-forwarded-for"] == "203.0.113.7"
    assert event["requestContext"]["identity"]["sourceIp"] == "127.0.0.1"


def test_an_empty_body_is_null(edge):
    event = edge.http.put("/probe").json()["event"]

    assert event["body"] is None
    assert event["isBase64Encoded"] is False
    assert "authorizer" not in event["requestContext"]


def test_ids_and_the_trace_travel_in_and_out(edge):
    answer = edge.http.put("/probe", headers={"x-amzn-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793"})

    seen = answer.json()
    assert seen["trace_id"] == answer.headers["x-amzn-trace-id"] == "Root=1-5759e988-bd862e3fe1be46a994272793"
    assert seen["request_id"] == answer.headers["x-amzn-requestid"] == seen["event"]["requestContext"]["requestId"]


def test_a_trace_header_that_is_no_text_is_replaced(edge):
    answer = edge.http.put("/probe", headers={"x-amzn-trace-id": b"Root=\xe9\xff"})

    assert answer.status_code == 200
    assert answer.json()["trace_id"].startswith("Root=1-")


def test_a_trace_is_begun_when_none_comes_in(edge):
    answer = edge.http.put("/probe")

    assert answer.json()["trace_id"].startswith("Root=1-")
    assert answer.json()["event"]["headers"]["X-Amzn-Trace-Id"] == answer.json()["trace_id"]


def test_variables_come_from_the_template(edge):
    environment = edge.http.put("/probe").json()["environment"]

    assert environment["SHARED"] == "shared"
    assert environment["TABLE"] == "probe-things"
    assert environment["TABLE_ARN"] == "arn:aws:dynamodb:us-east-1:000000000000:table/probe-things"
    assert environment["LITERAL"] == "${Not} b"
    assert "GREETING" not in environment
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "ProbeFunction"
    assert environment["PIECEWORK_RUNTIME_PUBLIC_URL"] == edge.url


@pytest.fixture(scope="module")
def set_by_the_caller(gateway):
    return gateway(
        api="ProbeApi",
        template=BUNDLE,
        LIMIT="5",
        MODEL_KEY="k-1",
        ONLY_NARROW="narrow",
        PIECEWORK_PARAM_Greeting="hello",
        PIECEWORK_RESULT_TTL_SECONDS="5",
        PIECEWORK_RUNTIME_TOKENS="a=b",
        PYTHONDONTWRITEBYTECODE="1",
    )


def test_parameters_and_settings_of_the_caller_override_the_template(set_by_the_caller):
    environment = set_by_the_caller.http.put("/probe").json()["environment"]

    assert environment["GREETING"] == "hello, us-east-1"
    assert environment["LIMIT"] == "5"
    assert "PIECEWORK_RUNTIME_TOKENS" not in environment
    assert "PIECEWORK_PARAM_Greeting" not in environment
    assert "PYTHONDONTWRITEBYTECODE" not in environment


def test_a_setting_reaches_only_the_functions_that_the_template_gives_it_to(set_by_the_caller):
    probe, narrow = (
        answer.json()["environment"]
        for answer in (set_by_the_caller.http.put("/probe"), set_by_the_caller.http.post("/narrow"))
    )

    assert narrow["ONLY_NARROW"] == "narrow"
    assert not {"ONLY_NARROW", "PIECEWORK_RESULT_TTL_SECONDS"} & probe.keys()
    assert not {"LIMIT", "PIECEWORK_RESULT_TTL_SECONDS", "PIECEWORK_RUNTIME_PUBLIC_URL"} & narrow.keys()


def test_what_is_not_the_products_stands_for_the_secret_that_executors_read(set_by_the_caller):
    probe, narrow = (
        answer.json()["environment"]
        for answer in (set_by_the_caller.http.put("/probe"), set_by_the_caller.http.post("/narrow"))
    )

    assert narrow["MODEL_KEY"] == "k-1"
    assert "MODEL_KEY" not in probe


def test_the_most_specific_resource_wins_then_the_method_then_any(edge):
    def resource(path: str) -> str:
        return edge.http.get(path).json()["event"]["resource"]

    assert resource("/probe") == "/probe"
    assert resource("/items/special/part") == "/items/special/part"
    assert resource("/items/special/other") == "/items/{id}/{part}"
    assert resource("/items/1") == "/{proxy+}"
    assert resource("/probe/") == "/{proxy+}"
    assert edge.http.get("/items/a%20b/c%2Fd").json()["event"]["pathParameters"] == {"id": "a b", "part": "c/d"}
    assert edge.http.get("/deep/er").json()["event"]["pathParameters"] == {"proxy": "deep/er"}


@pytest.mark.parametrize(("method", "path"), [("POST", "/only"), ("GET", "/"), ("POST", "/nowhere")])
def test_a_path_or_method_without_a_route_is_the_edges_own_answer(edge, method, path):
    answer = edge.http.request(method, path)

    assert answer.status_code == 404
    assert answer.json() == {"error": "Missing Authentication Token"}


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        ("", 401),
        ("wrong", 401),
        ("denied", 403),
        ("elsewhere", 403),
        ("bug", 500),
        ("odd", 500),
        ("undated", 500),
        ("alice", 200),
    ],
)
def test_the_authorizer_decides(edge, credential, status):
    answer = edge.http.post("/probe", headers={"authorization": credential})

    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"] == 'Basic realm="probe"'
    if status == 403:
        assert answer.json() == {"message": "User is not authorized to access this resource"}


def test_an_authorizer_that_raises_has_failed_whatever_the_caller_gets(fresh_edge):
    assert fresh_edge.http.post("/probe", headers={"authorization": "denied"}).status_code == 403
    assert "GuardFunction ended in an error" not in fresh_edge.logged()

    assert fresh_edge.http.post("/probe", headers={"authorization": "wrong"}).status_code == 401
    assert "GuardFunction ended in an error, which Lambda counts: Unauthorized" in fresh_edge.logged()


def test_the_edge_gives_up_before_the_work_does(edge, tmp_path):
    taken = []
    for done in (tmp_path / "done", tmp_path / "again"):  # the better of two counts, as another may have the processor
        begun = time.monotonic()

        answer = edge.http.post("/probe", headers=CALLER, json={"sleep": 2, "touch": str(done)})

        taken.append(time.monotonic() - begun)
        assert answer.status_code == 504
        assert answer.json() == {"error": "failed", "id": answer.headers["x-amzn-requestid"]}
        wait_until(done.exists)
        if taken[-1] < 1.9:
            break
    assert min(taken) < 1.9


def test_a_client_that_leaves_does_not_end_the_work(edge, tmp_path):
    begun, left, done = tmp_path / "begun", tmp_path / "left", tmp_path / "done"
    body = json.dumps({"begin": str(begun), "await": str(left), "sleep": 0.5, "touch": str(done)}).encode()
    port = int(edge.url.rpartition(":")[2])

    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"POST /probe HTTP/1.1\r\nhost: localhost\r\nauthorization: a\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        wait_until(begun.exists)
    assert not done.exists()
    left.touch()

    wait_until(done.exists)
    assert int(done.read_text()) in edge.pids(PROBE)


def test_a_function_past_its_timeout_is_killed_and_replaced(gateway, fresh_edge):
    [before] = fresh_edge.pids(PROBE)[:1]

    answer = fresh_edge.http.put("/probe", json={"sleep": 60})

    assert answer.status_code == 502
    again = fresh_edge.http.put("/probe").json()
    assert again["pid"] != before
    assert 2000 < again["remaining_ms"] <= 3000


def test_environments_are_reused(edge):
    pids = {edge.http.get("/only").json()["pid"] for _ in range(5)}

    assert len(pids) == 1


def test_concurrent_requests_get_environments_of_their_own(edge):
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: edge.http.put("/probe", json={"sleep": 2}), range(4)))

    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.json()["pid"] for answer in answers}) == 4


def test_a_function_without_a_free_environment_is_refused(edge):
    """Two requests at once for the one environment that the function may have: whichever comes second is refused."""
    together = Barrier(2)

    def post(_: int) -> httpx.Response:
        with httpx.Client(trust_env=False, timeout=30) as client:
            together.wait()
            return client.post(f"{edge.url}/narrow", json={"sleep": 3})

    with ThreadPoolExecutor(2) as threads:
        taken, refused = sorted(threads.map(post, range(2)), key=lambda answer: answer.status_code)

    assert (taken.status_code, refused.status_code) == (200, 500)
    assert refused.json()["error"] == "failed"


def test_a_crowd_waits_for_environments_instead_of_being_refused(fresh_edge):
    """Sixty-four at once: more than one function has environments here, and more than a laptop should start."""
    limits = httpx.Limits(max_connections=64)
    with httpx.Client(limits=limits, timeout=60, trust_env=False) as http, ThreadPoolExecutor(64) as threads:
        answers = list(threads.map(lambda _: http.put(f"{fresh_edge.url}/probe", json={}), range(192)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["pid"] for answer in answers}) <= 16


def test_requests_beyond_the_environments_take_their_turns(gateway):
    edge = gateway(api="ProbeApi", template=BUNDLE, fresh=True, PIECEWORK_LOCAL_ENVIRONMENTS="1")

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: edge.http.put("/probe", json={"sleep": 1.2}), range(3)))

    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.json()["pid"] for answer in answers}) == 1
    edge.close()


@pytest.mark.parametrize(
    ("method", "path", "wish", "reason"),
    [
        ("PUT", "/probe", {"raise": "secret"}, "502 PUT /probe: FunctionFailed: secret"),
        ("PUT", "/probe", {"exit": 3}, "502 PUT /probe: FunctionFailed: Runtime exited"),
        ("PUT", "/probe", {"response": []}, "502 PUT /probe: MalformedResponse"),
        ("GET", "/broken", {}, "502 GET /broken: FunctionFailed: "),
    ],
)
def test_each_server_error_of_the_gateway_leaves_a_line_with_its_reason(edge, method, path, wish, reason):
    assert edge.http.request(method, path, json=wish).status_code == 502

    wait_until(lambda: f"gateway: {reason}" in edge.logged())


@pytest.mark.slow
def test_two_hundred_clients_for_half_a_minute_meet_no_server_error(gateway):
    door = gateway(fresh=True)
    until, statuses = time.monotonic() + 30, Counter()

    def client(_: int) -> None:
        with httpx.Client(base_url=door.url, trust_env=False, timeout=60) as http:
            while time.monotonic() < until:
                statuses[http.post("/execute", json=an_execute_request()).status_code] += 1

    with ThreadPoolExecutor(200) as threads:
        list(threads.map(client, range(200)))

    assert set(statuses) == {200}
    door.close()


def test_a_killed_environment_is_one_failed_request(fresh_edge, tmp_path):
    begun = tmp_path / "begun"
    wish = {"begin": str(begun), "sleep": 2}
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(httpx.put, f"{fresh_edge.url}/probe", json=wish, timeout=30)
        wait_until(begun.exists)
        killed = fresh_edge.kill(PROBE)

    assert killed >= 1
    assert running.result().status_code == 502
    assert fresh_edge.http.put("/probe").status_code == 200


def test_an_environment_that_died_idle_costs_no_request(fresh_edge):
    fresh_edge.http.put("/probe")

    for _ in range(5):
        pids = fresh_edge.pids(PROBE)
        assert fresh_edge.kill(PROBE) >= 1
        wait_until(lambda pids=pids: not any(alive(pid) for pid in pids))
        assert fresh_edge.http.put("/probe").status_code == 200


@pytest.mark.parametrize("wish", [{"raise": "secret"}, {"exit": 3}])
def test_a_failing_function_is_a_502_without_its_text(edge, wish):
    answer = edge.http.put("/probe", json=wish)

    assert answer.status_code == 502
    assert answer.json()["error"] == "failed"
    assert "secret" not in answer.text


def test_a_function_that_cannot_start_is_a_502_each_time(edge):
    assert [edge.http.get("/broken").status_code for _ in range(2)] == [502, 502]


@pytest.mark.parametrize(
    "response",
    [
        None,
        [],
        "text",
        {},
        {"statusCode": "two hundred"},
        {"statusCode": True},
        {"statusCode": 200, "body": {"not": "text"}},
        {"statusCode": 200, "headers": {"x": ["list"]}},
        {"statusCode": 200, "multiValueHeaders": {"x": "no list"}},
        {"statusCode": 200, "more": 1},
        {"statusCode": 200, "isBase64Encoded": True, "body": "%%%"},
    ],
)
def test_a_malformed_response_is_a_502(edge, response):
    assert edge.http.put("/probe", json={"response": response}).status_code == 502


def test_responses_carry_repeated_headers_and_bytes(edge):
    answer = edge.http.put(
        "/probe",
        json={
            "response": {
                "statusCode": 201,
                "headers": {"x-one": "1", "x-Two": "dropped", "Content-Type": "application/x", "WWW-Authenticate": "B"},
                "multiValueHeaders": {"x-two": ["2", "3"]},
                "body": base64.b64encode(b"\x00\xff").decode(),
                "isBase64Encoded": True,
            }
        },
    )

    assert answer.status_code == 201
    assert answer.content == b"\x00\xff"
    assert answer.headers.get_list("x-two") == ["2", "3"]
    assert answer.headers["x-one"] == "1"
    assert answer.headers["content-length"] == "2"
    assert "www-authenticate" not in answer.headers
    assert answer.headers["x-amzn-remapped-www-authenticate"] == "B"


def test_an_api_without_binary_types_passes_text(gateway):
    edge = gateway(api="TextApi", template=BUNDLE)

    event = edge.http.put("/probe", content="é".encode()).json()["event"]
    assert (event["body"], event["isBase64Encoded"]) == ("é", False)
    encoded = {"statusCode": 200, "body": "AAA=", "isBase64Encoded": True}
    assert edge.http.put("/probe", json={"response": encoded}).text == "AAA="
    assert edge.http.get("/absent").json() == {"message": "Missing Authentication Token"}
    assert edge.http.get("/absent").status_code == 403


@pytest.mark.parametrize(
    ("size", "status"), [(4 * 1024 * 1024, 200), (5 * 1024 * 1024, 413), (10 * 1024 * 1024 + 1, 413)]
)
def test_requests_are_limited_by_the_edge_and_by_what_lambda_takes(edge, size, status):
    answer = edge.http.put("/probe", content=b"x" * size)

    assert answer.status_code == status
    if status == 200:
        assert answer.json()["length"] == size


def test_responses_are_limited_to_what_lambda_returns(edge):
    assert len(edge.http.put("/probe", json={"size": 5_000_000}).content) == 5_000_000
    assert edge.http.put("/probe", json={"size": 6_500_000}).status_code == 502
    assert edge.http.put("/probe").status_code == 200


def test_a_stopped_gateway_leaves_no_process(fresh_edge):
    fresh_edge.http.put("/probe")
    pids = [pid for pid, _ in children(fresh_edge.process.pid)]

    fresh_edge.process.terminate()

    assert fresh_edge.process.wait(5) in (0, -signal.SIGTERM)
    assert pids
    wait_until(lambda: not any(alive(pid) for pid in pids), 2)


def test_a_killed_gateway_leaves_no_process_even_in_mid_work(fresh_edge, tmp_path):
    begun = tmp_path / "begun"
    wish = {"begin": str(begun), "sleep": 60}
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(httpx.put, f"{fresh_edge.url}/probe", json=wish, timeout=30)
        wait_until(begun.exists)
        pids = [pid for pid, _ in children(fresh_edge.process.pid)]

        fresh_edge.process.kill()

        with pytest.raises(httpx.TransportError):
            running.result()
    assert pids
    wait_until(lambda: not any(alive(pid) for pid in pids), 2)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_functions_do_not_see_this_repository(edge):
    path = edge.http.put("/probe").json()["environment"]["PYTHONPATH"].split(os.pathsep)

    assert Path(path[0]) == BUNDLE.parent / "functions"
    assert all(not (Path(folder) / "template.yaml").exists() for folder in path)


def test_an_answer_does_not_wait_for_a_delayed_acknowledgement(edge):
    fastest = min(edge.http.get("/only").elapsed.total_seconds() for _ in range(20))

    assert fastest < 0.03


def test_a_web_application_gets_the_body_as_it_was_sent(edge):
    raw = bytes(range(256)) * 300

    sent = edge.http.post("/web", content=raw, headers={**CALLER, "content-type": "application/octet-stream"})
    piecewise = edge.http.post("/web", content=iter([b"one ", b"two"]), headers=CALLER)
    without = edge.http.delete("/web")

    assert sent.json()["body"].encode("latin-1") == raw
    assert piecewise.json()["body"] == "one two"
    assert (without.json()["method"], without.json()["body"]) == ("DELETE", "")


def test_a_web_application_answers_however_many_of_its_answers_are_still_open(edge):
    with ExitStack() as held, httpx.Client(limits=httpx.Limits(max_connections=None), timeout=30) as client:
        answers = [held.enter_context(client.stream("GET", f"{edge.url}/web?hold=1")) for _ in range(130)]

        assert {answer.status_code for answer in answers} == {200}
        assert client.delete(f"{edge.url}/web").status_code == 200


@pytest.mark.parametrize("route", ["/web", "/probe"])
@pytest.mark.parametrize("value", [b"2 ", b"2\t", b" \t 2 \t", b"2"])
def test_blanks_around_a_headers_value_do_not_belong_to_it(edge, route, value):
    """RFC 9110 5.5; sent over a socket of our own, since clients take such blanks away."""
    host, _, port = edge.url.removeprefix("http://").partition(":")
    head = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: alice\r\nConnection: close\r\nX-A:%s\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(head % (route.encode(), value))
        answer = b"".join(iter(lambda: sock.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"2"' in answer and b'"2 ' not in answer and b'"2\\t' not in answer


def test_a_web_application_is_told_what_the_edge_knows_and_no_client_can_say_it_instead(edge):
    forged = (b"X-Amzn-Request-Context", b'{"identity":{"sourceIp":"192.0.2.1"}}')
    headers = [(b"authorization", b"alice"), forged, (b"x-text", "\xe9".encode("latin-1"))]

    told = edge.http.post("/web", content=b"x", headers=headers).json()

    assert told["context"]["identity"]["sourceIp"] == "127.0.0.1"
    assert told["context"]["resourcePath"] == "/web"
    assert told["context"]["authorizer"]["caller"] == "alice"
    assert [name for name, _ in told["headers"]].count("x-amzn-request-context") == 1
    assert ["x-text", "\xe9"] in told["headers"]
    assert edge.http.post("/web", content=b"x").status_code == 401
