"""One contract for hints, held against the fake and against DynamoDB; and who gets one."""

from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.aws.table import THE_KERNEL, Table
from piecework.aws.writes import at
from piecework.errors import Unavailable
from piecework.kernel.model.changes import Change
from piecework.kernel.store.hints import KernelHints, _place
from piecework.kernel.store.keys import meta
from piecework.kernel.streams.hints import Mark, Named, agent_key, concerned_by, monitor_key, runner_key, send_hints
from tests.support.kernel.doors import a_door
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.stage import KernelStage

NAMED = Named("key", "execution")


@pytest.fixture(scope="module")
def table(request):
    aws = request.getfixturevalue("embedded_aws")
    return aws.client("dynamodb"), aws.new_table("KernelTable")


@pytest.fixture(params=["fake", "dynamodb"])
def hints(request):
    return FakeHints() if request.param == "fake" else KernelHints(*request.getfixturevalue("table"))


@pytest.fixture
def keys():
    name = uuid4().hex
    return [agent_key(name, "one"), agent_key(name, "two"), runner_key(name, "one")]


class TestHints:
    def test_a_hint_that_was_never_sent_has_no_mark(self, hints, keys):
        assert hints.marks(keys) == {}
        assert hints.marks([]) == {}

    def test_every_hint_changes_the_marks_of_its_own_keys_only(self, hints, keys):
        hints.send(dict.fromkeys(keys[:2]))
        before = dict(hints.marks(keys))
        hints.send(dict.fromkeys(keys[1:], NAMED))
        after = dict(hints.marks(keys))

        assert set(before) == set(keys[:2])
        assert set(after) == set(keys)
        assert after == {keys[0]: Mark(1), keys[1]: Mark(2, NAMED), keys[2]: Mark(1, NAMED)}
        assert before == {keys[0]: Mark(1), keys[1]: Mark(1)}

    def test_owner_and_consumer_are_not_mixed_up(self, hints, keys):
        name = keys[0][1]
        hints.send({agent_key(name, "a\x1fb"): None})

        assert hints.marks([agent_key(f"{name}\x1fa", "b"), runner_key(name, "a\x1fb")]) == {}

    def test_more_keys_than_one_request_takes_are_read(self, hints, keys):
        many = [agent_key(keys[0][1], f"é{number}") for number in range(230)]
        hints.send(dict.fromkeys(many[::50]))

        assert set(hints.marks(many)) == set(many[::50])


def test_the_version_of_an_execution_is_the_mark_of_those_who_follow_it(table):
    hints, rows = KernelHints(*table), Table(*table, THE_KERNEL)
    followed, other = (monitor_key(uuid4().hex) for _ in range(2))
    assert hints.marks([followed, other]) == {}

    seen = set[int]()
    for version in (1, 2):
        rows.put({**at(meta(followed[1])), "version": version, "record": "{}"})
        seen |= {hints.marks([followed, other])[followed].number}

    assert seen == {1, 2}
    assert other not in hints.marks([followed, other])


@pytest.fixture
def changes():
    """A stage, and every change that is committed on it."""
    stage, seen = KernelStage(), list[Change]()
    stage.store.on_commit = lambda change, is_applied: seen.append(change) if is_applied else None
    return stage, seen


def test_rows_of_earlier_versions_are_read_and_ours_are_hints_for_them(table, keys):
    hints, rows = KernelHints(*table), Table(*table, THE_KERNEL)
    seen = set[str]()
    for _ in range(3):
        hints.send({keys[0]: NAMED})
        [row] = rows.query(_place(keys[0])[0])
        seen.add(row["mark"])
    rows.put({name: row[name] for name in ("pk", "sk", "expires_at")} | {"mark": "a1b2c3d4e5f6"})

    assert len(seen) == 3
    assert hints.marks(keys) == {keys[0]: Mark(0)}
    hints.send({keys[0]: NAMED})
    assert hints.marks(keys) == {keys[0]: Mark(1, NAMED)}


def test_hints_go_to_those_who_wait_for_news(changes):
    stage, seen = changes
    agent = stage.agent()
    stage.runner()
    stage.create()
    session = agent.take("execution.assigned")
    assert concerned_by(seen[-1]) == {agent_key("triage", "one")}
    hints = FakeHints()
    send_hints(hints, seen[-1])
    [mark] = hints.kept.values()
    found = mark.named and stage.store.executions.message("triage", "one", *mark.named)
    assert found is None  # it was taken, written and removed
    stage.create()
    send_hints(hints, seen[-1])
    [mark] = hints.kept.values()
    assert mark.number == 2
    found = mark.named and stage.store.executions.message("triage", "one", *mark.named)
    assert found
    assert found.push == seen[-1].pushes[0]

    stage.invoke(session, remote=True)
    assert concerned_by(seen[-1]) == {runner_key("geo-1", "one")}
    stage.report(session, stage.invoke(session))
    assert seen[-1].pushes
    assert concerned_by(seen[-1]) == set()  # the agent knows what it has just reported


def test_a_change_stands_when_no_hint_can_be_sent(changes):
    class Broken(FakeHints):
        def send(self, hints):
            raise Unavailable("the table")

    stage, seen = changes
    stage.agent()
    execution = stage.create()
    [change] = [change for change in seen if change.pushes]
    commits = a_door(stage.store, stage.clock, hints=Broken()).commits

    commits.store(replace(change, before=stage.state(execution), pushes=()))
    commits.store(replace(change, before=stage.state(execution)))

    assert stage.state(execution) == change.after
