"""One contract for bells, held against the fake and against DynamoDB; and who is rung for."""

from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.errors import Unavailable
from piecework.kernel.model.changes import Change
from piecework.kernel.store.bells import KernelBells
from piecework.kernel.streams.bells import agent_key, rung_by, runner_key
from tests.support.kernel.bells import FakeBells
from tests.support.kernel.doors import a_door
from tests.support.kernel.stage import KernelStage


@pytest.fixture(scope="module")
def table(request):
    aws = request.getfixturevalue("embedded_aws")
    return aws.client("dynamodb"), aws.new_table("KernelTable")


@pytest.fixture(params=["fake", "dynamodb"])
def bells(request):
    return FakeBells() if request.param == "fake" else KernelBells(*request.getfixturevalue("table"))


@pytest.fixture
def keys():
    name = uuid4().hex
    return [agent_key(name, "one"), agent_key(name, "two"), runner_key(name, "one")]


class TestBells:
    def test_a_bell_that_was_never_rung_is_not_heard(self, bells, keys):
        assert bells.rung(keys) == {}
        assert bells.rung([]) == {}

    def test_every_ring_changes_the_mark_of_its_own_bells_only(self, bells, keys):
        bells.ring(keys[:2])
        before = dict(bells.rung(keys))
        bells.ring(keys[1:])
        after = dict(bells.rung(keys))

        assert set(before) == set(keys[:2])
        assert set(after) == set(keys)
        assert after[keys[0]] == before[keys[0]]
        assert after[keys[1]] != before[keys[1]]

    def test_owner_and_consumer_are_not_mixed_up(self, bells, keys):
        name = keys[0][1]
        bells.ring([agent_key(name, "a\x1fb")])

        assert bells.rung([agent_key(f"{name}\x1fa", "b"), runner_key(name, "a\x1fb")]) == {}

    def test_more_bells_than_one_request_takes_are_heard(self, bells, keys):
        many = [agent_key(keys[0][1], f"é{number}") for number in range(230)]
        bells.ring(many[::50])

        assert set(bells.rung(many)) == set(many[::50])


@pytest.fixture
def changes():
    """A stage, and every change that is committed on it."""
    stage, seen = KernelStage(), list[Change]()
    stage.store.on_commit = lambda change, is_applied: seen.append(change) if is_applied else None
    return stage, seen


def test_those_are_rung_for_who_wait_for_news(changes):
    stage, seen = changes
    agent = stage.agent()
    stage.runner()
    stage.create()
    session = agent.take("execution.assigned")
    assert rung_by(seen[-1]) == {agent_key("triage", "one")}

    stage.invoke(session, remote=True)
    assert rung_by(seen[-1]) == {runner_key("geo-1", "one")}
    stage.report(session, stage.invoke(session))
    assert seen[-1].pushes
    assert rung_by(seen[-1]) == set()  # the agent knows what it has just reported


def test_a_change_stands_when_nobody_can_be_rung_for(changes):
    class Broken(FakeBells):
        def ring(self, keys):
            raise Unavailable("the table")

    stage, seen = changes
    stage.agent()
    execution = stage.create()
    [change] = [change for change in seen if change.pushes]
    commits = a_door(stage.store, stage.clock, bells=Broken()).commits

    commits.store(replace(change, before=stage.state(execution), pushes=()))
    commits.store(replace(change, before=stage.state(execution)))

    assert stage.state(execution) == change.after
