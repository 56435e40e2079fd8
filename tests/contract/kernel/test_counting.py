"""The numbers behind /metrics: each is counted once, in the transaction of its command, whoever else counts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from piecework.aws.transport.failures import ServiceRefused
from piecework.kernel.model.commands import Intent, StepResult
from piecework.kernel.model.metrics import ACTIVE, executions, intents
from piecework.kernel.model.ports.executions import VersionConflict
from piecework.kernel.store import counters
from tests.contract.kernel.test_executions import Stored
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.tables import KernelTables, new_tables

CREATED = executions("created")


class Watching:
    """A client that notes the rows of numbers of each transaction, and may refuse some, or send each twice."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.counted: list[list[str]] = []
        self.refused = 0
        self.is_twice = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **given: Any) -> Any:
        keys = [write["Update"]["Key"] for write in given["TransactItems"] if "Update" in write]
        self.counted.append([key["sk"]["S"] for key in keys if key["pk"]["S"].startswith("COUNT")])
        if self.refused:
            self.refused -= 1
            reasons = [{"Code": "None"}, {"Code": "TransactionConflict"}]
            raise ServiceRefused("TransactionCanceledException", answer={"CancellationReasons": reasons})
        if self.is_twice:
            self._client.transact_write_items(**given)
        return self._client.transact_write_items(**given, **({"ClientRequestToken": "again"} if self.is_twice else {}))


@pytest.fixture
def client(embedded_aws):
    return Watching(embedded_aws.client("dynamodb"))


@pytest.fixture
def tables(embedded_aws, client) -> KernelTables:
    return new_tables(embedded_aws, FakeClock(START_MS), client=client)


@pytest.fixture
def drawn(monkeypatch) -> Callable[[], int]:
    """Slots are drawn in order; how many there were."""
    numbers, draws = count(), []

    def draw(_most: int) -> int:
        draws.append(next(numbers))
        return draws[-1]

    monkeypatch.setattr(counters.secrets, "randbelow", draw)
    return lambda: len(draws)


def test_a_life_is_counted_in_the_transactions_that_make_it(tables):
    story = Stored(tables).assigned()
    story.act(Intent("wait", signal_type="go"))
    story.signal("go")
    story.act(Intent("complete"))

    assert tables.counters.all() == {
        CREATED: 1,
        ACTIVE: 0,
        executions("completed"): 1,
        intents("wait", "accepted"): 1,
        intents("complete", "accepted"): 1,
    }


def test_a_transaction_that_is_sent_twice_is_counted_once(tables, client):
    client.is_twice = True

    Stored(tables).assigned().act(Intent("complete"))

    assert tables.counters.all()[CREATED] == tables.counters.all()[executions("completed")] == 1


def test_a_command_that_is_refused_is_not_counted(tables):
    story = Stored(tables).assigned()
    story.act(Intent("complete"))
    before = tables.counters.all()

    with pytest.raises(VersionConflict):
        tables.executions.commit(story.changes[-1])

    assert tables.counters.all() == before


def test_a_thread_keeps_its_slot_and_threads_that_count_at_once_have_one_each(tables, client, drawn):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: [Stored(tables).create() for _ in range(3)], range(4)))

    rows = sorted(row for rows in client.counted for row in rows)
    assert len(rows) == 12 and len(set(rows)) == drawn() <= 4
    assert tables.counters.all()[CREATED] == 12


def test_a_transaction_that_meets_another_is_tried_again_in_another_slot(tables, client, drawn):
    client.refused = 2

    story = Stored(tables).create().assigned()
    client.refused = 1
    with pytest.raises(VersionConflict):
        story.act(Intent("wait", signal_type="go"))
    story.act(Intent("wait", signal_type="go"))

    assert [row for rows in client.counted for row in rows] == ["P#000", "P#001", "P#002", "P#002", "P#003"]
    assert tables.counters.all()[CREATED] == tables.counters.all()[intents("wait", "accepted")] == 1


def test_a_slot_is_drawn_with_the_first_command_since_environments_come_from_one_snapshot(tables, drawn):
    assert drawn() == 0

    Stored(tables).create()

    assert drawn() == 1


def test_numbers_about_tools_lie_apart_and_those_of_one_tool_together(tables, client):
    story = Stored(tables).assigned()
    story.do(StepResult(story.session, story.invoke("notes.find"), True, {"found": 1}, ""))

    general, tool = client.counted[-2:]
    assert len(general) == len(tool) == 1
    assert tool[0].startswith(f"{general[0]}#T")


def test_numbers_that_earlier_code_counted_are_added(tables, embedded_aws):
    for sk, name, amount in (("S#3", CREATED, "4"), ("T#07", f"steps\x1fgeo.{uuid4().hex}\x1fsum", "0.25")):
        item = {"pk": {"S": "COUNT"}, "sk": {"S": sk}, f"={name}": {"N": amount}}
        embedded_aws.client("dynamodb").put_item(TableName=tables.table, Item=item)

    Stored(tables).create()

    assert tables.counters.all()[CREATED] == 5
    assert sorted(tables.counters.all().values()) == [0.25, 1, 5]
