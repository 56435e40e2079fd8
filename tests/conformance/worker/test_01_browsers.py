"""Worker specification 1.1: a seeker in a browser reads every answer of the door, whoever makes it."""

import pytest

from tests.support.worker.machine import running_worker

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


PAGE = "https://seeker.example"
ASKED = "access-control-expose-headers,content-type,payment-signature,x-contract-id"  # as a stock x402 client sends it
READ = ("payment-required", "payment-response", "x-payment-amount", "x-request-id", "retry-after")
NOBODY = {"X-Contract-ID": "ctr_nobody", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def worker(gateways):
    with running_worker(gateways) as running:
        yield running


def names(value):
    return {name.strip().lower() for name in value.split(",") if name.strip()}


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/execute", "POST"),
        ("/tasks/task_" + "A" * 26, "GET"),
        ("/stream/task_" + "A" * 26, "GET"),
        ("/contracts", "POST"),
        ("/contracts/ctr_a", "GET"),
        ("/manifest", "GET"),
        ("/healthz", "GET"),
    ],
)
def test_a_browsers_preflight_is_let_through_on_every_path(worker, path, method):
    asked = {"Origin": PAGE, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": ASKED}

    answer = worker.http.options(path, headers=asked)

    assert 200 <= answer.status_code < 300 and answer.content == b""
    assert answer.headers["access-control-allow-origin"] in ("*", PAGE)
    assert method in answer.headers["access-control-allow-methods"]
    assert names(ASKED) <= names(answer.headers["access-control-allow-headers"])
    assert int(answer.headers["access-control-max-age"]) > 0


def readable(answer):
    exposed = names(answer.headers.get("access-control-expose-headers", ""))
    return answer.headers.get("access-control-allow-origin"), exposed


def test_every_answer_of_the_functions_is_readable(worker):
    http = worker.http
    contract = worker.contract("steady")
    answers = {
        402: worker.execute(contract, {}, pay=False),
        200: http.get("/manifest"),
        400: http.post("/execute", json={}),
        404: http.post("/execute", json={}, headers=NOBODY),
        405: http.put("/execute"),
        415: http.post("/execute", content=b"{}", headers={"X-Contract-ID": contract}),
        422: http.post("/contracts", json={"contract": {}}),
    }

    assert {status: answer.status_code for status, answer in answers.items()} == {status: status for status in answers}
    for answer in answers.values():
        origin, exposed = readable(answer)
        assert origin == "*" and set(READ) <= exposed
    assert answers[402].headers["payment-required"]


def test_every_answer_of_the_edge_itself_is_readable(worker):
    answers = [
        worker.http.get("/nothing/here"),
        worker.http.post("/execute", content=b"x" * (10 * 1024 * 1024 + 1), headers=NOBODY),
        worker.http.post("/execute", content=b"x" * (7 * 1024 * 1024), headers=NOBODY),
    ]

    assert [answer.status_code for answer in answers] == [404, 413, 413]
    for answer in answers:
        assert readable(answer)[0] == "*"


def test_a_stream_and_its_refusals_are_readable(worker):
    hired = worker.hire("echo", {"prompt": "p"})
    url = f"/stream/{hired.task_id}"

    read = worker.http.get(url, headers={"X-Contract-ID": hired.contract_id, "Origin": PAGE})
    refused = worker.http.get(url, headers={"Origin": PAGE})

    assert (read.status_code, refused.status_code) == (200, 400)
    assert readable(read)[0] == readable(refused)[0] == "*" and "x-request-id" in readable(read)[1]


def test_a_page_of_another_origin_is_told_the_one_that_the_operator_named(gateways):
    with running_worker(gateways, PIECEWORK_PARAM_WorkerCorsOrigin=PAGE) as narrowed:
        told = [
            narrowed.http.get("/manifest", headers={"Origin": "https://other.example"}),
            narrowed.http.options("/execute", headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"}),
            narrowed.http.get("/nothing", headers={"Origin": PAGE}),
            narrowed.http.get("/stream/task_" + "A" * 26),
        ]

    assert [answer.headers.get("access-control-allow-origin") for answer in told] == [PAGE] * 4
