"""What follows a commit: every effect in its turn, whatever the others do, and the commit stands."""

import logging

import pytest

from piecework.errors import Internal, Unavailable
from piecework.kernel.errors import Conflict, NotFound
from piecework.kernel.errors import Internal as KernelInternal
from piecework.kernel.service.meeting import met
from tests.support.kernel.house import FOR_EVER, House
from tests.support.kernel.stage import KernelStage


class Following(House):
    """A house in which these effects follow a commit, and nothing else."""

    def __init__(self, *effects):
        self.effects = effects
        super().__init__()

    def parts(self):
        return {"effects": self.effects}


def test_effects_follow_in_their_order_once_the_change_is_stored():
    seen = []
    house = Following(lambda change: seen.append("first"), lambda change: seen.append("second"))
    house.store.on_commit = lambda change, applied: seen.append("stored") if applied else None

    house.kernel.create("triage", None, {})

    assert seen == ["stored", "first", "second"]


@pytest.mark.parametrize(
    ("trouble", "level"), [(Unavailable("the table"), logging.WARNING), (KeyError("a bug"), logging.ERROR)]
)
def test_an_effect_that_fails_is_logged_and_hides_neither_the_commit_nor_the_next_effect(caplog, trouble, level):
    seen = []

    def ring(change):
        raise trouble

    house = Following(ring, seen.append)
    view = house.kernel.create("triage", {"n": 1}, {})

    assert view.execution == house.state(view.execution.id) == seen[0].after
    assert [(record.levelno, record.message.partition(":")[0]) for record in caplog.records] == [
        (level, "ring did not follow a commit")
    ]


def test_a_creation_is_answered_as_its_offer_left_it():
    stage = KernelStage()

    def connect(change, applied):
        if change.before is None and not applied:
            stage.store.agents.connect("triage", "one", FOR_EVER)

    stage.store.on_commit = connect  # after nobody was chosen, and before the offer

    view = stage.kernel.create("triage", None, {})

    assert view.execution.session.consumer_id == "one"
    assert view.execution == stage.store.executions.read(view.execution.id).execution


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (NotFound("execution e"), []),
        (Conflict("moved"), []),
        (KernelInternal(), ["a job was not handed over"]),
        (Internal("x"), ["a job was not handed over"]),
        (KeyError("x"), ["a job was not handed over"]),
    ],
)
def test_what_one_execution_meets_ends_nothing_else_and_hides_no_bug(caplog, trouble, told):
    with met("a job was not handed over"):
        raise trouble

    assert caplog.messages == told and all(record.exc_info for record in caplog.records)


def test_a_store_out_of_reach_is_out_of_reach_for_all():
    with pytest.raises(Unavailable), met("x"):
        raise Unavailable("x")
