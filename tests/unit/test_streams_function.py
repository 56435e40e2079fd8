"""GET /stream/{task_id} as the web application answers it, over fakes: ids, tokens, and how often one may ask."""

import asyncio
import importlib
import json
import sys
from types import SimpleNamespace

import httpx
import pytest

from piecework.errors import Unavailable
from piecework.hire.rates import Rate, Rates
from piecework.hire.settings import WorkerSettings
from piecework.hire.streams import Look, Recorder, Streams, StreamTokens
from piecework.hire_edges_wiring import StreamsWiring, stream_url
from tests.support.fakes import START_MS, FakeClock
from tests.support.hire_stage import Telemetry
from tests.support.streams import FakeStreamLog, FakeTasks
from tests.support.worker_handlers import VARIABLES

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
    monkeypatch.delitem(sys.modules, "streams.app", raising=False)
    module = importlib.import_module("streams.app")
    log = FakeStreamLog()
    Recorder(log, f"{TASK}/1", 0)(25)
    tasks = FakeTasks({(contract, TASK): Look(f"{TASK}/1", None) for contract in (CONTRACT, ANOTHER)})
    clock = FakeClock(START_MS)

    def under(rates):
        streams = Streams(log, tasks, clock)
        module.wiring = StreamsWiring(streams, lambda: TOKENS, False, rates, clock, Telemetry())
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
    settings = WorkerSettings(public_base_url="https://w.example", worker_wallets=(), worker_agent_id="agent_work01")

    assert stream_url(settings, lambda: START_MS)(SimpleNamespace(contract_id=CONTRACT, task_id=TASK)) is None
