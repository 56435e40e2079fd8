"""Bounds of the worker door that no other test reaches."""

import pytest

from piecework.aws.queues import Queue
from piecework.extend.executors import Artifact
from piecework.schemas import SchemaRejected
from piecework.worker.answer import outputs
from piecework.worker.answer.outputs import OutputRefused, output_of
from piecework.worker.contract.schema import SCHEMA_BYTES, SCHEMA_DEPTH, compile_task_schema
from piecework.worker.record.states import State
from piecework.worker.settings import WorkerSettings
from tests.support.worker.contracts import WORKER_AGENT_ID, WORKER_WALLET
from tests.support.worker.records import a_record, changed

NEEDED = {
    "PUBLIC_BASE_URL": "https://w.example",
    "WORKER_WALLETS": WORKER_WALLET,
    "WORKER_AGENT_ID": WORKER_AGENT_ID,
}
DAY = 86_400


def nested(depth):
    schema = True
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def test_a_contracts_schema_is_bounded_in_size_and_depth():
    longest = {"description": "x" * (SCHEMA_BYTES - len('{"description":""}'))}

    compile_task_schema(longest)
    compile_task_schema(nested(SCHEMA_DEPTH))
    for schema in ({"description": longest["description"] + "x"}, nested(SCHEMA_DEPTH + 1)):
        with pytest.raises(SchemaRejected):
            compile_task_schema(schema)


def test_a_file_over_the_limit_is_no_output(monkeypatch):
    monkeypatch.setattr(outputs, "FILE_LIMIT", 10)

    output_of(None, [Artifact("a", b"x" * 10, "text/plain")], {})
    with pytest.raises(OutputRefused):
        output_of(None, [Artifact("a", b"x" * 11, "text/plain")], {})


def test_links_and_attempts_are_bounded_whatever_the_settings_say():
    settings = WorkerSettings.from_env({**NEEDED, "URL_TTL_SECONDS": "999999", "DEFAULT_ATTEMPTS": "99"})

    assert (settings.url_ttl_seconds, settings.default_attempts) == (43_200, 10)


def an_execution():
    return a_record(
        contract_id="ctr_a",
        task_id="task_a",
        state=State.COMPLETED,
        version=1,
        generation=1,
        attempt=1,
        attempts=3,
        body_digest="",
        executor="echo",
        created_at_ms=0,
        ends_at_ms=DAY * 1000,
        input={"text": "{}"},
        claim_key="8453/a/b/c",
        payer="0x",
        valid_before=DAY,
    )


def test_receipts_and_claims_are_kept_for_90_days_and_past_the_authorization():
    ended = changed(an_execution(), finished_at_ms=DAY * 1000)

    assert ended.expires_at == (1 + 90 + 1) * DAY  # a day more, so that nothing is looked for in its last minute
    assert changed(ended, valid_before=200 * DAY).expires_at == 201 * DAY


def test_a_delayed_message_waits_no_longer_than_a_queue_can_hold():
    delays = []

    class Client:
        def send_message(self, **message):
            delays.append(message["DelaySeconds"])

    for delay_ms in (-1, 1, 5_000, 900_001, 10**9):
        Queue(Client, "url").send({"id": "a"}, delay_ms)

    assert delays == [0, 1, 5, 900, 900]
