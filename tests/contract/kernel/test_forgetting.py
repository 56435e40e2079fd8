"""An execution that is forgotten while others look, or whose forgetting was cut short."""

from uuid import uuid4

import pytest

from piecework.errors import Unavailable
from piecework.kernel.decide.command import decide, decide_new
from piecework.kernel.model.commands import Cancel, Create
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store import keys
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.tables import new_tables

LABELS = {f"label {number}": "x" * 1_000 for number in range(200)}  # over what an item keeps beside an execution


@pytest.fixture(scope="module")
def tables(embedded_aws):
    return new_tables(embedded_aws, FakeClock(START_MS))


@pytest.fixture
def values(tables):
    """How the store reads and removes what lies in the bucket."""
    return tables.executions._values


@pytest.fixture
def ended(tables):
    """An execution of an agent of its own that has ended; its labels lie in the bucket."""
    create = Create(uuid4().hex, f"agent-{uuid4().hex}", None, LABELS)
    change = decide_new(create, START_MS, KernelSettings(), lambda now_ms: uuid4().hex).change
    tables.executions.commit(change)
    read = tables.executions.read(create.execution_id)
    cancelled = decide(read, Cancel(), START_MS, KernelSettings(), lambda now_ms: uuid4().hex).change
    tables.executions.commit(cancelled)
    return cancelled.after


def listed(tables, execution):
    return [row.id for row in tables.executions.rows(Filter(agent_id=execution.agent_id), None, 10).rows]


def test_an_execution_whose_forgetting_was_cut_short_is_listed_and_forgotten_by_the_next_sweep(
    tables, values, ended, monkeypatch
):
    drop = type(values).drop

    def cut_short(self, item):
        drop(self, item)
        if item["sk"] == keys.LABELS:
            raise Unavailable("the process is killed")

    with monkeypatch.context() as cut:
        cut.setattr(type(values), "drop", cut_short)
        with pytest.raises(Unavailable):
            tables.executions.forget(ended.id)
    assert listed(tables, ended) == [ended.id]

    tables.executions.forget(ended.id)

    assert listed(tables, ended) == []


def test_whoever_looks_while_an_object_is_removed_finds_no_row_that_names_it(tables, values, ended, monkeypatch):
    seen, drop = [], type(values).drop

    def dropped(self, item):
        drop(self, item)
        seen.append((listed(tables, ended), tables.executions.events(ended.id, 0, 10)))

    monkeypatch.setattr(type(values), "drop", dropped)
    tables.executions.forget(ended.id)

    assert seen and seen == [([ended.id], [])] * len(seen)
