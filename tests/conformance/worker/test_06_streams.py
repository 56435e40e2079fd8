"""Worker specification, section 8, cases 57 and 58, through the gateway with every process there is."""

import json
import time

import httpx
import pytest

from piecework.worker.stream.streams import StreamTokens
from tests.support.machine import wait_until
from tests.support.worker.machine import STREAM_KEY, running_worker

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


@pytest.fixture(scope="module", params=["buffered", "streaming"])
def worker(request, gateway):
    with running_worker(gateway, SSE_MODE=request.param) as running:
        yield running


@pytest.fixture
def gate(tmp_path):
    path = tmp_path / "gate"
    path.write_text("0")
    return path


def read(worker, hired, events, *, last_id=None, token=None):
    """The first events of an answer, as (id, kind, data); the connection is dropped after them."""
    headers = {} if token else {"X-Contract-ID": hired.contract_id}
    headers |= {"Last-Event-ID": str(last_id)} if last_id is not None else {}
    query = {"st": token} if token else {}
    with worker.http.stream("GET", f"/stream/{hired.task_id}", headers=headers, params=query, timeout=30) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        return take(answer, events)


def take(answer: httpx.Response, events: int):
    found, block = [], {}
    for line in answer.iter_lines():
        if not line and "id" in block:
            found.append((int(block["id"]), block["event"], block["data"]))
            block = {}
            if len(found) == events:
                break
        elif ": " in line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            block[name] = value
    return found


def read_until(worker, hired, count, last_id=0):
    """Resume until so many events have come."""
    found = []
    while len(found) < count:
        found += read(worker, hired, count - len(found), last_id=last_id)
        last_id = found[-1][0] if found else last_id
    return found


def test_stream_resume(worker, gate):
    hired = worker.hire("steady", {"gate": str(gate)})
    gate.write_text("2")
    first = read_until(worker, hired, 2)  # and the connection drops

    gate.write_text("3")
    third = read_until(worker, hired, 1, last_id=2)

    worker.facilitator.say("settle", "401")  # nothing is sent: the work ends, but is not paid
    gate.write_text("4")
    wait_until(lambda: worker.facilitator.count("settle") >= 1)
    unpaid = worker.http.get(f"/tasks/{hired.task_id}", headers={"X-Contract-ID": hired.contract_id}).json()
    before_paid = read_until(worker, hired, 3)

    worker.facilitator.say("settle", "ok")
    wait_until(lambda: worker.task(hired)["status"] == "completed", seconds=60)
    rest = read_until(worker, hired, 2, last_id=3)
    headers = {"X-Contract-ID": hired.contract_id, "Last-Event-ID": "5"}
    ended = worker.http.get(f"/stream/{hired.task_id}", headers=headers)

    assert [(seq, kind) for seq, kind, _ in first] == [(1, "progress"), (2, "progress")]
    assert [(seq, kind) for seq, kind, _ in third] == [(3, "progress")]
    assert unpaid["status"] == "pending"
    assert {kind for _, kind, _ in before_paid} == {"progress"}
    assert [(seq, kind) for seq, kind, _ in rest] == [(4, "item"), (5, "done")]
    assert '"score":7' in rest[0][2]
    assert (ended.status_code, ended.content) == (204, b"")


def test_stream_shows_the_output_of_a_task_that_was_paid_before_the_work(worker, gate):
    hired = worker.hire("prepaid", {"gate": str(gate)})
    item, first = read_until(worker, hired, 2)
    running = worker.task(hired)
    gate.write_text("1")
    rest = read_until(worker, hired, 3, last_id=2)
    wait_until(lambda: worker.task(hired)["status"] == "completed", seconds=60)

    file = json.loads(item[2])
    assert item[:2] == (1, "item") and worker.http.get(file["url"]).content == b"the plan"
    assert first == (2, "output", '{"delta":"one ","index":0}')
    assert (running["status"], running["final"]) == ("partial", False)
    assert worker.http.get(running["deliverables"][0]["url"]).content == b"the plan"
    assert rest[0] == (3, "output", '{"delta":"two","index":1}')
    assert [kind for _, kind, _ in rest] == ["output", "output", "done"]  # a text that went out live is only completed


def test_stream_token(worker, gate):
    hired = worker.hire("steady", {"gate": str(gate)})
    other = worker.hire("steady", {"gate": str(gate)})
    gate.write_text("4")
    tokens, now_ms = StreamTokens(STREAM_KEY.encode()), int(time.time() * 1000)

    good = hired.answer.json()["stream_url"].partition("?st=")[2]
    bad = {
        "wrong": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "expired": tokens.issue(hired.contract_id, hired.task_id, now_ms - 86_401_000),
        "other": other.answer.json()["stream_url"].partition("?st=")[2],
        "empty": "x",
    }
    answers = {name: worker.http.get(f"/stream/{hired.task_id}", params={"st": st}) for name, st in bad.items()}

    assert hired.answer.json()["stream_url"].startswith(f"{worker.gateway.url}/stream/{hired.task_id}?st=")
    assert read(worker, hired, 1, token=good)[0][:2] == (1, "progress")
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(bad, 404)
    assert {answer.json()["error"]["code"] for answer in answers.values()} == {"TASK_NOT_FOUND"}
    assert worker.http.get(f"/stream/{hired.task_id}").status_code == 400
    assert worker.http.post(f"/stream/{hired.task_id}").status_code == 405
