"""Rows about agents, runners, queues and messages as earlier code wrote them, and as a later version might."""

import json
from pathlib import Path
from typing import Any

import pytest

from piecework.kernel.model.changes import JobPush, Push
from piecework.kernel.model.ports.runners import ToolEntry
from piecework.kernel.model.state import Connection
from tests.support.fakes import FakeClock
from tests.support.kernel.tables import KernelTables, new_tables

ROWS = json.loads((Path(__file__).parents[3] / "support" / "stored" / "kernel_connections_7a1e751.json").read_text())
NOW_MS = 1_750_000_001_000


def later(item: dict[str, Any]) -> dict[str, Any]:
    """The row as a later version might write it: a member more, also within its JSON."""
    more = {"push": lambda text: json.dumps(json.loads(text) | {"newer": 1})}
    texts = {name: {"S": more[name](value["S"])} for name, value in item.items() if name in more}
    return item | texts | {"newer": {"M": {"a": {"S": "b"}}}}


@pytest.fixture(params=["earlier", "later"])
def tables(embedded_aws, request) -> KernelTables:
    made = new_tables(embedded_aws, FakeClock(NOW_MS))
    for item in ROWS:
        row = later(item) if request.param == "later" else item
        embedded_aws.client("dynamodb").put_item(TableName=made.table, Item=row)
    return made


def test_an_agents_consumers_turn_and_waiting_executions_are_read(tables):
    consumers = tables.agents.consumers("triage")

    assert [one.consumer_id for one in consumers] == ["one", "two"]
    assert [(one.is_open, one.doubted_until_ms) for one in consumers] == [(True, 0), (False, 0)]
    assert tables.agents.next_turn("triage") == 3
    [waiting] = tables.agents.waiting("triage")
    assert (waiting.created_at_ms, waiting.claimed_until_ms) == (1_750_000_000_500, 0)
    assert tables.agents.claim("triage", waiting, NOW_MS + 2_000)
    assert tables.agents.doubt(consumers[0], NOW_MS + 3_000)
    assert tables.agents.refresh_all(list(consumers), NOW_MS + 12_000) == [consumers[1]]
    assert tables.agents.find("triage", "one").doubted_until_ms == 0


def test_a_runners_connection_and_the_queue_of_its_tool_are_read(tables):
    [linked] = tables.runners.offering("geo.lookup")

    assert (linked.connection, linked.job_id, linked.doubted_until_ms) == (Connection("geo-1", "one"), "", 0)
    [job] = tables.runners.unclaimed("geo.lookup", NOW_MS)
    assert job.step_id == "step-1"
    assert tables.runners.claim_job(job, NOW_MS + 3_000)
    assert tables.runners.unclaimed("geo.lookup", NOW_MS) == []
    assert tables.runners.unclaimed("geo.lookup", NOW_MS + 3_000) == [job]


def test_messages_are_read_and_one_that_cannot_be_is_left_to_others(tables, embedded_aws):
    unreadable = {"pk": {"S": "OUT#agent#~f"}, "sk": {"S": "0"}, "push": {"S": "[7]"}, "taken_by": {"N": "0"}}
    to_agent = next(item for item in ROWS if item["pk"]["S"].startswith("OUT#agent"))
    embedded_aws.client("dynamodb").put_item(TableName=tables.table, Item=unreadable | {"pk": to_agent["pk"]})

    [message] = tables.outbox.messages("agent", "triage", "one", 10)
    [job] = tables.outbox.messages("runner", "geo-1", "one", 10)

    assert isinstance(message.push, Push) and message.push.kind == "execution.assigned"
    assert isinstance(job.push, JobPush) and job.push.tool_id == "geo.lookup"


def test_the_directory_is_read(tables):
    assert tables.runners.directory("") == [ToolEntry("geo.lookup", "finds", None, "geo-1", 1_750_000_000_000)]
