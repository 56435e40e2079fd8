"""GET /stream/{task_id} as the web application answers it, over fakes: ids, tokens, and how often one may ask."""

import asyncio
import importlib
import json
import os
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest

from piecework.errors import Unavailable
from piecework.worker.rates import Rate, Rates
from piecework.worker.stream.readers import Readers
from piecework.worker.stream.streams import Look, Recorder, Streams, StreamTokens
from piecework.worker.wiring import WorkerDoor
from tests.support.fakes import START_MS, FakeClock
from tests.support.worker.handlers import VARIABLES
from tests.support.worker.stage import Telemetry
from tests.support.worker.streams import FakeSeats, FakeStreamLog, FakeTasks

TASK, OTHER = "task_7Q2M9ZK4T8WX1B5C0D3F6G7HJK", "task_7Q2M9ZK4T8WX1B5C0D3F6G7HJL"
CONTRACT, ANOTHER = "ctr_demo01", "ctr_demo02"
TABLES = {
    "PIECEWORK_CONTRACTS_TABLE": "contracts",
    "PIECEWORK_WORK_TABLE": "work",
    "PIECEWORK_BUCKET": "bucket",
    "AWS_DEFAULT_REGION": "us-east-1",
}
TOKENS = StreamTokens(b"key")


@pytest.fixture
def reader(monkeypatch):
    """A reader of streams; give it rates and it asks under them."""
    for name, value in {**VARIABLES, **TABLES}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "worker.streams.app", raising=False)
    module = importlib.import_module("worker.streams.app")
    log = FakeStreamLog()
    Recorder(log, f"{TASK}/1", 0)(25)
    tasks = FakeTasks({(contract, TASK): Look(f"{TASK}/1", None) for contract in (CONTRACT, ANOTHER)})
    clock = FakeClock(START_MS)

    def under(rates, stays_open=False, seats=None, **most):
        seats = FakeSeats() if seats is None else seats
        streams = Streams(log, tasks, clock)
        parts = {"streams": streams, "stream_tokens": lambda: TOKENS, "stays_open": stays_open, "rates": rates}
        parts |= {"clock": clock, "telemetry": Telemetry(), "readers": Readers(seats, clock, 60, **most)}
        vars(module.door).update(parts)
        return module.app

    return under


def ask(app, *, contract=CONTRACT, source="192.0.2.7", task=TASK, **query):
    headers = {"x-amzn-request-context": json.dumps({"identity": {"sourceIp": source}})}
    headers |= {"X-Contract-ID": contract} if contract else {}

    async def answer():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://streams") as client:
            return await client.get(f"/stream/{task}", headers=headers, params=query)

    return asyncio.run(answer())


def test_a_contract_that_asks_too_often_for_a_stream_is_told_when_to_come_back(reader):
    client = reader(Rates(per_contract=Rate(2, 2), per_address=Rate(9, 9), clock=lambda: 5.0))

    answers = [ask(client) for _ in range(3)]
    other = ask(client, contract=ANOTHER)

    assert [answer.status_code for answer in (*answers, other)] == [200, 200, 429, 200]
    assert answers[2].json()["error"]["code"] == "RATE_LIMITED"
    assert answers[2].headers["retry-after"] == "1"


def test_readers_with_a_token_are_counted_as_their_contract(reader):
    client = reader(Rates(per_contract=Rate(2, 1), per_address=Rate(9, 9), clock=lambda: 5.0))
    token = TOKENS.issue(CONTRACT, TASK, START_MS)

    answers = [ask(client, contract=None, st=token), ask(client)]

    assert [answer.status_code for answer in answers] == [200, 429]


def test_an_address_that_tries_tokens_is_refused_after_a_while(reader):
    client = reader(Rates(per_address=Rate(2, 2), clock=lambda: 5.0))

    answers = [ask(client, contract=None, st="guess") for _ in range(3)]
    other = ask(client, source="192.0.2.8")

    assert [answer.status_code for answer in answers] == [404, 404, 429]
    assert other.status_code == 200


def test_a_contract_has_a_few_open_streams_and_another_one_its_own(reader, monkeypatch):
    client = reader(Rates(), stays_open=True, per_contract=2)

    async def answers():
        async with opened(client, CONTRACT), opened(client, CONTRACT) as second:
            third, other = await asked(client, CONTRACT), await asked(client, ANOTHER, read=False)
            first_status = second
        return first_status, third, other, await asked(client, CONTRACT, read=False)

    second, third, other, after = asyncio.run(answers())

    assert (second, third[0], other[0], after[0]) == (200, 429, 200, 200)
    assert third[1]["error"]["code"] == "RATE_LIMITED" and "open streams" in third[1]["error"]["message"]


def test_the_door_has_so_many_open_streams_whoever_reads_them(reader):
    client = reader(Rates(), stays_open=True, per_contract=2, per_door=2)

    async def answers():
        async with opened(client, CONTRACT), opened(client, ANOTHER):
            return await asked(client, CONTRACT)

    status, body = asyncio.run(answers())

    assert status == 429 and "poll" in body["error"]["message"]


def test_environments_share_what_they_know_of_open_streams(reader):
    seats = FakeSeats()
    first = reader(Rates(), stays_open=True, seats=seats, per_contract=1)

    async def answers():
        async with opened(first, CONTRACT):
            second = reader(Rates(), stays_open=True, seats=seats, per_contract=1)
            return await asked(second, CONTRACT)

    assert asyncio.run(answers())[0] == 429


def test_what_is_told_at_once_takes_no_seat(reader):
    seats = FakeSeats()
    client = reader(Rates(), seats=seats, per_contract=1)

    assert [ask(client).status_code for _ in range(3)] == [200, 200, 200] and seats.held == {}


@asynccontextmanager
async def opened(app, contract):
    """An open stream, read up to its first bytes; its status."""
    status, started, gone = [], asyncio.Event(), asyncio.Event()

    async def send(message):
        if message["type"] == "http.response.start":
            status.append(message["status"])
        if message.get("body") or status[-1:] != [200]:
            started.set()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    reading = asyncio.create_task(app(scope_of(contract), receive, send))
    await asyncio.wait_for(started.wait(), 10)
    try:
        yield status[0]
    finally:
        gone.set()
        await asyncio.wait_for(asyncio.gather(reading, return_exceptions=True), 10)


async def asked(app, contract, *, read=True):
    """Status and body of one more request; an open stream is left at once, a refusal is read."""
    parts = []

    async def send(message):
        parts.append(message)

    async def receive():
        await asyncio.sleep(0 if not read else 1)
        return {"type": "http.disconnect"}

    task = asyncio.create_task(app(scope_of(contract), receive, send))
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 10)
    body = b"".join(part.get("body", b"") for part in parts)
    return parts[0]["status"], json.loads(body) if body.startswith(b"{") else None


def scope_of(contract):
    headers = [(b"x-contract-id", contract.encode()), (b"x-amzn-request-context", b"{}")]
    path = f"/stream/{TASK}"
    members = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    return {**members, "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("streams", 80)}


def test_what_another_task_or_nobody_may_read_is_not_told(reader):
    client = reader(Rates())

    assert ask(client, task=OTHER).status_code == 404
    assert ask(client, contract=None).status_code == 400
    assert ask(client, contract=None, st=TOKENS.issue(CONTRACT, OTHER, START_MS)).status_code == 404


def test_an_answer_goes_without_its_stream_while_the_key_is_out_of_reach(monkeypatch):
    def unreachable(arn):
        raise Unavailable("no")

    monkeypatch.delenv("PIECEWORK_STREAM_KEY", raising=False)
    monkeypatch.setenv("PIECEWORK_STREAM_KEY_ARN", "arn:aws:secretsmanager:us-east-1:1:secret:key")
    monkeypatch.setattr("piecework.aws.secrets.secret_text", unreachable)
    door = WorkerDoor({**os.environ, **VARIABLES})

    assert door.stream_url(SimpleNamespace(contract_id=CONTRACT, task_id=TASK)) is None
