"""One contract for executions, held against the fake and against DynamoDB; the real domain decides every change."""

import hashlib
import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.kernel.decide.command import decide_new
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import (
    AgentLost,
    Cancel,
    Create,
    Dispatch,
    Expire,
    Intent,
    JobResult,
    Signal,
    StepResult,
    TakeIntent,
)
from piecework.kernel.model.due_times import EXECUTION_DUE
from piecework.kernel.model.ports.executions import Beside, Filter, VersionConflict
from piecework.kernel.model.ports.runners import ConnectionTaken
from piecework.kernel.model.state import Connection, Job, Status, Step, StepStatus, StoredSignal
from piecework.kernel.model.timers import due_at
from piecework.kernel.settings import MAX_ACTIVE_STEPS, MAX_STORED_SIGNALS
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import answer_bytes, new_store
from tests.support.kernel.story import ASK, DENY, Story
from tests.support.kernel.tables import new_tables

BIG = "x" * 350_000
FAR_MS = 10**14


@pytest.fixture(scope="module", params=["fake", "dynamodb"])
def store(request):
    clock = FakeClock(START_MS)
    if request.param == "fake":
        return new_store(clock)
    return new_tables(request.getfixturevalue("embedded_aws"), clock)


class Stored(Story):
    """A story whose changes are committed to a store."""

    def __init__(self, store) -> None:
        super().__init__(now_ms=START_MS)
        self.store, self.agent_id, self.changes = store, f"agent-{uuid4().hex}", []

    def new_id(self, _now_ms: int) -> str:
        return uuid4().hex

    def create(self, **given) -> "Stored":
        command = Create(uuid4().hex, given.get("agent_id", self.agent_id), given.get("input"), given.get("labels", {}))
        self._apply(decide_new(command, self.now_ms, self.settings, self.new_id).change)
        return self

    def _apply(self, change: Change | None) -> None:
        if change:
            self.store.executions.commit(change)
            self.changes.append(change)
        super()._apply(change)

    @property
    def id(self) -> str:
        return self.state.id

    def kept(self, **what):
        return self.store.executions.read(self.id, **what)

    def runner(self, *tools: str):
        """A connection of its own, idle."""
        connection = Connection(f"runner-{uuid4().hex}", "one")
        return self.store.runners.connect(connection, tools or ("geo.lookup",), FAR_MS)[0]


@pytest.fixture
def story(store):
    return Stored(store)


def due_rows(story) -> list[int]:
    return [due.at_ms for due in story.store.due_times.ripe(EXECUTION_DUE, FAR_MS) if due.id == story.id]


class TestExecutions:
    def test_an_unknown_execution_is_not_there_however_it_is_asked_for(self, store):
        for name in ("nobody", "", "x" * 5_000, "a b/ü\n", "~" * 3):
            read = store.executions.read(name, key="k", step_id=name, session_id=name)
            assert (read.execution, read.answered, read.step, read.session_of) == (None, None, None, None)
            assert store.executions.view(name) is None
            assert store.executions.events(name, 0, 10) == []
            assert store.executions.history(name, 10) == []

    def test_the_checkpoint_is_what_was_decided(self, story):
        story.assigned().remote()
        story.signal("later", {"n": 1})
        story.wait("go")

        assert story.kept().execution == story.state

    @pytest.mark.parametrize("given", [None, {"b": 1, "a": [1.0, 2**63 - 1, -0.0, "ü\u2028"]}, "", 10**30, [], BIG])
    def test_input_and_output_come_back_as_they_went_in(self, story, given):
        story.create(input=given)
        assert story.store.executions.view(story.id).input == given
        assert story.store.executions.view(story.id).output is None

        story.assigned()
        story.act(Intent("complete", output=given, has_output=True))

        view = story.store.executions.view(story.id)
        assert (view.execution, view.input, view.output) == (story.state, given, given)
        if isinstance(given, dict):
            assert list(view.input) == ["b", "a"]

    @pytest.mark.parametrize("labels", [{}, {"env": "qa", "ü": '😀 "x"'}, {"long": BIG, "env": "qa"}])
    def test_labels_of_any_size_come_back_in_reads_views_and_lists(self, story, labels):
        story.create(labels=labels)

        assert story.kept().execution.labels == labels
        assert story.store.executions.view(story.id).execution.labels == labels
        [row] = story.store.executions.rows(Filter(agent_id=story.agent_id), None, 10).rows
        assert (row.id, row.labels) == (story.id, labels)

    def test_a_change_from_an_old_version_is_refused_whole(self, story):
        story.assigned()
        story.wait("go")
        old = story.changes[-1]
        story.signal("go", 1)

        with pytest.raises(VersionConflict):
            story.store.executions.commit(replace(old, counts={}))
        assert story.kept().execution == story.state
        assert len(story.store.executions.events(story.id, 0, 100)) == story.state.sequence

    def test_an_execution_is_created_once(self, story):
        story.create()

        with pytest.raises(VersionConflict):
            story.store.executions.commit(replace(story.changes[0], input="another"))
        assert story.store.executions.view(story.id).input is None

    def test_of_two_changes_at_once_one_is_stored(self, story):
        story.create()
        change = story.changes[0]
        rivals = [replace(change, before=story.state, after=replace(story.state, version=2)) for _ in range(4)]
        outcomes = []

        def commit(rival) -> None:
            try:
                story.store.executions.commit(replace(rival, events=(), input=None))
                outcomes.append("stored")
            except VersionConflict:
                outcomes.append("moved")

        threads = [threading.Thread(target=commit, args=(rival,)) for rival in rivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(outcomes) == ["moved"] * 3 + ["stored"]

    def test_the_log_is_read_from_any_place_and_in_pieces(self, story):
        story.assigned()
        for _ in range(3):
            story.remote()

        events = story.store.executions.events(story.id, 0, 1000)
        assert events == story.log
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        for after in range(len(events) + 2):
            assert story.store.executions.events(story.id, after, 4) == story.log[after : after + 4]

    def test_a_page_of_long_events_is_cut_and_never_empty(self, story):
        story.create()
        for _ in range(5):
            story.signal("big", "y" * 1_000_000)
        seen, after = [], 0

        while page := story.store.executions.events(story.id, after, 1000):
            seen += page
            after = page[-1].sequence

        assert seen == story.log
        assert len(story.store.executions.events(story.id, 0, 1000)) >= 1

    @pytest.mark.parametrize(
        ("text", "events", "expected"),
        [
            (
                "漢" * 250_000,
                17,
                6,
            ),  # the first is the small execution.created; 750 kB each as UTF-8, twice that escaped
            ('"\\' * 180_000, 8, 6),  # escaped in UTF-8 too
            ("😀" * 190_000, 8, 6),
            ("y" * 90_000, 60, 45),  # in their rows, as DynamoDB has them
            ("é" * 30_000, 80, 67),
        ],
    )
    def test_a_page_holds_as_many_events_as_four_megabytes_allow(self, story, text, events, expected):
        story.create()
        for _ in range(events):
            story.signal("big", text)

        page = story.store.executions.events(story.id, 0, 1000)

        assert len(page) == expected
        assert answer_bytes(page) <= 4_000_000 < answer_bytes(story.log[: expected + 1])
        assert page == story.log[:expected]
        assert story.store.executions.events(story.id, 0, 3) == story.log[:3]

    def test_a_page_is_measured_as_it_is_answered_where_a_text_is_half_a_character(self, story):
        story.create()
        for text in ("漢" * 250_000, "漢" * 250_000, "\ud800", "漢" * 250_000):
            story.signal("big", text)

        assert len(story.store.executions.events(story.id, 0, 1000)) == 4
        assert len(story.store.executions.events(story.id, 3, 1000)) == 2

    def test_a_step_has_its_arguments_and_in_the_end_its_outcome(self, story):
        step_id = story.assigned().invoke(arguments=BIG)
        before = story.kept(step_id=step_id).step
        story.do(StepResult(story.session, step_id, True, {"found": BIG}, ""))

        assert (before.arguments, before.has_arguments, before.remote, before.outcome) == (BIG, True, False, None)
        after = story.kept(step_id=step_id).step
        assert after == story.records[step_id]
        assert (after.outcome.status, after.outcome.result) == (StepStatus.SUCCEEDED, {"found": BIG})
        assert story.kept(step_id="other").step is None

    def test_history_holds_the_last_attempts_oldest_first_with_what_they_came_to(self, story):
        story.assigned()
        ids = [story.invoke(arguments={"n": number}) for number in range(4)]
        for step_id in ids[:3]:
            story.do(StepResult(story.session, step_id, step_id != ids[1], {"of": step_id}, "no luck"))
        story.do(Cancel())

        assert story.store.executions.history(story.id, 50) == [
            (entry, story.records[entry.step_id]) for entry in story.history
        ]
        assert [entry.step_id for entry, _ in story.store.executions.history(story.id, 2)] == ids[2:]

    def test_a_signals_payload_is_kept_under_its_events_sequence(self, story):
        story.create().signal("go", {"n": BIG})

        [sequence] = story.signals
        assert story.store.executions.signal(story.id, sequence) == story.signals[sequence]

    def test_a_session_tells_its_execution_even_after_it_was_replaced(self, story):
        first = story.assigned().session

        assert story.store.executions.read("other", session_id=first).session_of == story.id
        assert story.kept(session_id="never").session_of is None

    def test_the_fullest_checkpoint_fits(self, story):
        story.assigned()
        state = story.state
        steps = [
            Step(
                id=str(uuid4()),
                tool_id=f"{number % 20}" + "ü" * 120,
                remote=True,
                status=StepStatus.DISPATCHED,
                attempt=1,
                max_attempts=3,
                created_at_ms=START_MS,
                deadline_ms=FAR_MS,
                job=Job(str(uuid4()), START_MS, Connection(f"runner-{number}-{uuid4()}", f"consumer-{uuid4()}")),
            )
            for number in range(MAX_ACTIVE_STEPS)
        ]
        signals = tuple(StoredSignal(number, f"{number % 50}" + "é" * 120) for number in range(MAX_STORED_SIGNALS))
        after = replace(state, version=state.version + 1, steps={step.id: step for step in steps}, signals=signals)

        story.store.executions.commit(Change(state, after, ()))

        assert story.kept().execution == after

    def test_the_fullest_checkpoint_fits_with_all_that_people_were_asked(self, story):
        from piecework.kernel.model.kept_answers import Call, Kept  # nothing else here needs it

        story.assigned()
        state = story.state
        digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(MAX_ACTIVE_STEPS)]
        steps = {
            digest: Step(digest, f"{number % 20}" + "ü" * 120, True, StepStatus.DISPATCHED, 1, 1, START_MS, FAR_MS)
            for number, digest in enumerate(digests)
        }
        calls = {digest: Call(digest, 1, digest, START_MS) for digest in digests}
        kept = tuple(Kept(digest, Call(digest, 1, digest), False, "é" * 500) for digest in digests[:100])
        approvals = replace(state.approvals, calls=calls, counts=dict.fromkeys(digests, 1), kept=kept)
        signals = tuple(StoredSignal(number, f"{number % 50}" + "é" * 120) for number in range(MAX_STORED_SIGNALS))
        after = replace(state, version=state.version + 1, steps=steps, signals=signals, approvals=approvals)

        story.store.executions.commit(Change(state, after, ()))

        assert story.kept().execution == after
        assert story.kept().execution.approvals == approvals

    def test_an_answer_is_found_by_its_key_and_given_once(self, story):
        key = "k" * 2_000
        story.assigned().wait("go", idempotency_key=key)
        story.signal("go")

        answered = story.kept(key=key).answered
        assert answered == story.answers[key]
        again = replace(story.changes[-1], before=story.state, after=replace(story.state, version=99), events=())
        with pytest.raises(VersionConflict):
            story.store.executions.commit(replace(again, answered=answered))
        assert story.kept(key="another").answered is None

    def test_a_freed_key_is_given_anew(self, story):
        story.assigned().wait("go", idempotency_key="k")
        story.signal("go")
        found = story.kept(key="k").answered
        other = replace(found, fingerprint="other")
        free = Change(story.state, replace(story.state, version=story.state.version + 1), (), freed_key="k")

        story.store.executions.commit(replace(free, answered=other))

        assert story.kept(key="k").answered == other

    def test_due_times_follow_the_execution(self, story):
        story.create()
        assert due_rows(story) == [due_at(story.state, story.settings)]
        story.assigned().invoke()
        assert due_rows(story) == [START_MS + story.settings.step_timeout_ms]
        story.do(Cancel())
        assert due_rows(story) == [START_MS + story.settings.retention_ms]

    def test_a_forgotten_execution_leaves_nothing_behind(self, story):
        story.create(input=BIG).assigned()
        story.invoke(idempotency_key="k")
        story.signal("go", BIG)
        story.do(Cancel())

        story.store.executions.forget(story.id)
        story.store.executions.forget(story.id)

        read = story.kept(key="k", step_id=next(iter(story.records)))
        assert (read.execution, read.answered, read.step) == (None, None, None)
        assert story.store.executions.events(story.id, 0, 10) == []
        assert story.store.executions.rows(Filter(agent_id=story.agent_id), None, 10).rows == []
        assert due_rows(story) == []


class TestQueuesAndConnections:
    def test_a_job_without_a_connection_waits_in_its_tools_queue(self, story):
        story.assigned()
        tool = f"tool-{uuid4().hex}"
        steps = [story.invoke(tool, remote=True) for _ in range(3) if story.later(1)]

        jobs = story.store.runners.queued(tool, story.now_ms, 10)
        assert [job.step_id for job in jobs] == steps
        assert jobs == [job for job in story.queue if job.tool_id == tool]
        assert len(story.store.runners.queued(tool, story.now_ms, 2)) == 2
        assert story.store.runners.queued(tool, story.state.steps[steps[0]].job.not_before_ms - 1, 10) == []
        story.do(Cancel())
        assert story.store.runners.queued(tool, story.now_ms, 10) == []

    def test_a_job_claims_its_connection_and_its_result_frees_it(self, story):
        linked = story.runner()
        step_id = story.assigned().remote(linked)

        held = story.store.runners.find(linked.connection)
        assert (held.job_id, held.execution_id) == (story.job_id(step_id), story.id)
        [message] = story.store.outbox.messages("runner", linked.connection.runner_id, "one", 10)
        assert message.push == story.last.job_push
        story.do(JobResult(story.job_id(step_id), step_id, True, 1, "", False))
        assert story.store.runners.find(linked.connection).job_id == ""

    def test_a_connection_in_use_is_taken_and_nothing_of_the_change_is_stored(self, story):
        linked = story.runner()
        story.assigned().remote(linked)
        version = story.state.version

        with pytest.raises(ConnectionTaken):
            story.remote(linked)
        assert story.kept().execution.version == version

    def test_a_connection_that_has_ended_takes_no_job(self, story):
        linked = story.runner()
        story.store.runners.end(linked, FAR_MS)
        story.assigned()

        with pytest.raises(ConnectionTaken):
            story.remote(linked)

    def test_a_job_in_hand_survives_a_rotation_but_not_a_replaced_stream(self, story):
        linked = story.runner()
        step_id = story.assigned().remote(linked)
        assert story.store.runners.end(linked, FAR_MS)

        rotated, _ = story.store.runners.connect(linked.connection, ["geo.lookup"], FAR_MS)
        assert (rotated.job_id, rotated.execution_id) == (story.job_id(step_id), story.id)
        replacing, replaced = story.store.runners.connect(linked.connection, ["geo.lookup"], FAR_MS)
        assert (replacing.job_id, replaced.job_id) == ("", story.job_id(step_id))

    def test_a_job_handed_out_leaves_the_queue(self, story):
        tool = f"tool-{uuid4().hex}"
        step_id = story.assigned().invoke(tool, remote=True)
        [job] = story.store.runners.queued(tool, story.now_ms, 1)
        linked = story.runner(tool)

        assert story.do(Dispatch(step_id, job.job_id, linked, job.not_before_ms, tool))

        assert story.store.runners.queued(tool, FAR_MS, 1) == []
        assert story.store.runners.find(linked.connection).job_id == story.job_id(step_id)

    def test_a_result_counts_although_its_connection_was_freed_before(self, story):
        linked = story.runner()
        step_id = story.assigned().remote(linked)
        assert story.store.runners.free(linked.connection, story.job_id(step_id))

        story.do(JobResult(story.job_id(step_id), step_id, True, 1, "", False))

        assert story.kept(step_id=step_id).step.outcome.result == 1

    def test_connections_that_are_no_longer_held_do_not_hold_a_change_up(self, story):
        held, freed, other = (story.runner() for _ in range(3))
        step_id = story.assigned().remote(held)
        frees = (
            (freed.connection, "job-1"),
            (held.connection, story.job_id(step_id)),
            (other.connection, "job-2"),
            (Connection("nobody", "one"), "job-3"),
        )
        after = replace(story.state, version=story.state.version + 1)

        story.store.executions.commit(Change(story.state, after, (), free=frees))

        assert story.kept().execution == after
        assert story.store.runners.find(held.connection).job_id == ""


class TestBoards:
    def test_an_execution_waits_on_its_agents_board_until_it_is_given_out(self, story):
        story.create()
        assert story.store.agents.agent_queue(story.agent_id).waiting == (story.id,)
        story.assigned("c1")
        assert story.store.agents.agent_queue(story.agent_id).waiting == ()

    def test_the_oldest_waits_first_and_a_hundred_are_shown(self, store):
        agent_id, ids = f"agent-{uuid4().hex}", []
        for number in range(102):
            one = Stored(store).later(number % 7)
            one.create(agent_id=agent_id)
            ids.append((one.state.created_at_ms, one.id))

        assert store.agents.agent_queue(agent_id).waiting == tuple(name for _, name in sorted(ids)[:100])

    def test_what_waits_is_given_out_by_one_until_it_waits_anew_or_the_mark_lapses(self, store):
        story = Stored(store)
        story.create()
        [waiting] = store.agents.waiting(story.agent_id)
        assert (waiting.execution_id, waiting.created_at_ms) == (story.id, story.state.created_at_ms)

        assert store.agents.claim(story.agent_id, waiting, FAR_MS)
        assert not store.agents.claim(story.agent_id, waiting, FAR_MS)
        assert [each.claimed_until_ms for each in store.agents.waiting(story.agent_id)] == [FAR_MS]
        story.assigned("c1")
        assert not store.agents.claim(story.agent_id, waiting, FAR_MS)
        story.do(AgentLost(story.session))
        assert store.agents.claim(story.agent_id, waiting, START_MS - 1)
        assert store.agents.claim(story.agent_id, waiting, FAR_MS)

    def test_a_job_is_handed_out_by_one_until_its_mark_lapses_or_is_taken_off(self, story):
        runners = story.store.runners
        story.assigned()
        tool = f"tool-{uuid4().hex}"
        for _ in range(2):
            story.later(1).invoke(tool, remote=True)
        first, second = runners.unclaimed(tool, story.now_ms)

        assert runners.claim_job(first, FAR_MS)
        assert not runners.claim_job(first, FAR_MS)
        assert runners.unclaimed(tool, story.now_ms) == [second]
        assert runners.queued(tool, story.now_ms, 10) == [first, second]
        runners.unclaim_job(first)
        assert runners.claim_job(first, START_MS - 1)
        assert runners.unclaimed(tool, story.now_ms) == [first, second]
        assert not runners.claim_job(replace(first, job_id="gone"), FAR_MS)
        runners.unclaim_job(replace(first, job_id="gone"))
        assert len(runners.queued(tool, story.now_ms, 10)) == 2

    def test_a_consumers_sessions_are_those_it_holds(self, story):
        story.assigned("c1")
        assert story.store.agents.sessions(story.agent_id, "c1") == [story.id]
        assert story.store.agents.sessions(story.agent_id, "c2") == []
        story.act(Intent("complete"))
        assert story.store.agents.sessions(story.agent_id, "c1") == []

    def test_a_new_session_is_its_own_consumers_and_the_old_one_is_still_known(self, story):
        first = story.assigned("c1").session
        story.do(AgentLost(first))
        assert story.store.agents.sessions(story.agent_id, "c1") == []
        assert story.store.agents.agent_queue(story.agent_id).waiting == (story.id,)
        story.assigned("c2")

        assert story.store.agents.sessions(story.agent_id, "c2") == [story.id]
        assert story.kept(session_id=first).session_of == story.kept(session_id=story.session).session_of == story.id

    def test_messages_lie_in_their_consumers_outbox_in_order(self, story):
        story.assigned("c1").signal("go", 1)
        story.later(-5).signal("go", 2)

        messages = story.store.outbox.messages("agent", story.agent_id, "c1", 10)
        assert [message.push for message in messages] == story.pushes
        assert messages[0].push.kind == "execution.assigned"
        assert {message.taken_by for message in messages} == {0}
        assert story.store.outbox.messages("agent", story.agent_id, "c1", 1) == messages[:1]
        assert story.store.outbox.messages("agent", story.agent_id, "c2", 10) == []

    def test_a_message_is_found_by_its_key_with_its_consumer_and_its_execution(self, story):
        story.create(input={"n": 1}, labels={"tier": "gold"}).assigned("c1")
        change = story.changes[-1]
        place = (story.agent_id, "c1", change.message_key(0), story.id)

        found = story.store.executions.message(*place)
        assert found
        assert (found.push, found.taken_by) == (change.pushes[0], 0)
        assert found.beside == Beside(None, story.store.executions.view(story.id))
        consumer, _ = story.store.agents.connect(story.agent_id, "c1", FAR_MS)
        story.store.outbox.take("agent", story.agent_id, "c1", found.key, 7)
        found = story.store.executions.message(*place)
        assert found
        assert (found.taken_by, found.beside.consumer) == (7, consumer)

        assert story.store.executions.message(story.agent_id, "c2", *place[2:]) is None
        assert story.store.executions.message(*place[:2], change.message_key(1), story.id) is None
        story.store.outbox.remove("agent", story.agent_id, "c1", [found.key])
        assert story.store.executions.message(*place) is None

    def test_a_message_is_taken_by_one_generation(self, story):
        story.assigned("c1")
        [message] = story.store.outbox.messages("agent", story.agent_id, "c1", 10)

        def take(generation: int) -> bool:
            return story.store.outbox.take("agent", story.agent_id, "c1", message.key, generation)

        assert [take(7), take(7), take(8)] == [True, True, False]
        assert story.store.outbox.messages("agent", story.agent_id, "c1", 10)[0].taken_by == 7
        story.store.outbox.remove("agent", story.agent_id, "c1", [message.key])
        assert not take(7)
        assert story.store.outbox.messages("agent", story.agent_id, "c1", 10) == []

    def test_whoever_waits_for_a_person_is_listed_until_one_has_answered(self, story):
        step_id = story.assigned().invoke("pay.refund", ASK)

        [found] = [one for one in story.store.executions.approvals(1000) if one.execution_id == story.id]
        assert (found.step_id, found.tool_id, found.agent_id) == (step_id, "pay.refund", story.agent_id)
        story.signal("step.approve", {"step_id": step_id, "approved": True})
        assert story.id not in [one.execution_id for one in story.store.executions.approvals(1000)]

    def test_what_happened_is_counted(self, store):
        before = dict(store.counters.all())
        one = Stored(store).assigned()
        one.act(Intent("complete"))

        after = store.counters.all()
        moved = {name for name in after if after[name] != before.get(name, 0)}
        assert any("created" in name for name in moved) and any("completed" in name for name in moved)
        assert after.get("active", 0) == before.get("active", 0)


class TestLists:
    @pytest.fixture
    def five(self, store):
        """Five executions of one agent, oldest first."""
        agent_id, made = f"agent-{uuid4().hex}", []
        for number in range(5):
            one = Stored(store).later(1_000 * (number // 2))
            one.create(agent_id=agent_id, labels={"parity": str(number % 2), "run": agent_id, "n": f"{number}"})
            made.append(one)
        made[1].assigned()
        made[3].do(Cancel())
        return sorted(made, key=lambda one: (one.state.created_at_ms, one.id))

    def test_the_newest_come_first_and_pages_neither_repeat_nor_skip(self, store, five):
        which, after, seen = Filter(agent_id=five[0].state.agent_id), None, []

        while page := store.executions.rows(which, after, 2).rows:
            seen += page
            after = (page[-1].created_at_ms, page[-1].id)

        assert [row.id for row in seen] == [one.id for one in reversed(five)]
        assert [row.status for row in seen] == [one.state.status for one in reversed(five)]

    def test_conditions_hold_together(self, store, five):
        run = five[0].state.agent_id

        def ids(**conditions) -> set[str]:
            return {row.id for row in store.executions.rows(Filter(**conditions), None, 50).rows}

        assert ids(labels={"run": run}) == {one.id for one in five}
        assert ids(labels={"run": run, "parity": "1"}) == {one.id for one in five if one.state.labels["parity"] == "1"}
        assert ids(labels={"run": run}, status=Status.CANCELLED) == {
            one.id for one in five if one.state.status is Status.CANCELLED
        }
        running = ids(agent_id=run, status=Status.RUNNING)
        assert running == {one.id for one in five if one.state.status is Status.RUNNING}
        assert ids(agent_id=run, labels={"run": "other"}) == ids(agent_id="nobody") == set()

    def test_a_list_can_be_asked_for_anything(self, store, five):
        many = {f"label-{number}": "x" for number in range(100)}

        assert store.executions.rows(Filter(agent_id="x" * 3_000), None, 10).rows == []
        assert store.executions.rows(Filter(agent_id=five[0].state.agent_id, labels=many), None, 10).rows == []
        assert store.executions.rows(Filter(agent_id=five[0].state.agent_id), (FAR_MS, "x" * 3_000), 1).rows

    def test_a_list_shows_an_executions_present_status(self, story):
        story.assigned()
        story.later(story.settings.execution_timeout_ms).do(Expire())

        [row] = story.store.executions.rows(Filter(agent_id=story.agent_id), None, 10).rows
        assert (row.status, row.updated_at_ms) == (Status.FAILED, story.now_ms)
        assert story.store.executions.rows(Filter(agent_id=story.agent_id, status=Status.RUNNING), None, 10).rows == []


@pytest.mark.parametrize("approved", [True, False])
def test_what_a_person_said_is_kept_with_its_step(store, approved):
    story = Stored(store).assigned()
    step_id = story.invoke("pay", ASK)
    asked = story.kept(step_id=step_id, with_decision=True).step
    story.signal("step.approve", {"step_id": step_id, "approved": approved}, by="mia")

    said = story.kept(step_id=step_id, with_decision=True).step.decided

    assert (asked.asked, asked.decided) == (True, None)
    assert (said.approved, said.by, said.at_ms) == (approved, "mia", story.now_ms)
    assert story.kept().execution.has_answered


def test_events_keep_the_name_of_who_caused_them(store):
    story = Stored(store).assigned()
    story.do(Cancel(), by="mia")

    log = store.executions.events(story.id, 0, 10)

    assert [(event.type, event.by) for event in log] == [
        ("execution.created", ""),
        ("execution.started", ""),
        ("execution.cancelled", "mia"),
    ]


def test_the_names_by_which_intents_came_are_in_the_checkpoint(store):
    story = Stored(store).assigned()
    for by in ("desk", "twin", "desk"):
        story.do(TakeIntent(story.session, Intent("invoke_tool", "notes.find"), DENY), by=by)

    assert story.kept().execution == story.state
    assert story.kept().execution.worked_by == ("desk", "twin")


def test_a_step_that_nobody_was_asked_about_says_so(store):
    story = Stored(store).assigned()
    step_id = story.invoke()

    assert story.kept(step_id=step_id, with_decision=True).step.asked is False
    assert not story.kept().execution.has_answered


@pytest.mark.parametrize("came_back", [False, True])
def test_the_loss_of_a_consumer_that_came_back_meanwhile_is_decided_again(store, came_back):
    story = Stored(store)
    consumer, _ = store.agents.connect(story.agent_id, "triage-9f", FAR_MS)
    story.assigned()
    step_id = story.invoke("pay", ASK)
    store.agents.end(consumer, START_MS + 1_000)
    ended = replace(consumer, is_open=False)
    story.do(Signal("step.approve", {"step_id": step_id, "approved": True}, consumer=ended))
    assert story.kept().execution.approvals == story.state.approvals
    if came_back:
        store.agents.connect(story.agent_id, "triage-9f", FAR_MS)
        with pytest.raises(VersionConflict):
            story.do(AgentLost(story.session, ended))
        return

    story.do(AgentLost(story.session, ended))

    [kept] = story.kept().execution.approvals.kept
    assert (kept.step_id, kept.approved) == (step_id, True)
    assert story.kept().execution.approvals == story.state.approvals
