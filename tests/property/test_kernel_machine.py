"""Random lives of executions: commands, crashes, losses and clock jumps; the log always tells the truth."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from piecework.kernel.decide.denials import BY_TIME
from piecework.kernel.errors import KernelError
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.events import TERMINAL, Event
from piecework.kernel.model.evolve import evolve, fold
from piecework.kernel.model.payloads import PAYLOADS
from piecework.kernel.model.state import Execution, Status, Step
from piecework.kernel.policy.verdicts import Decision, OnTimeout, Verdict, Wait
from tests.support.kernel.house import House, Killed

VERDICTS = {
    "gated": Verdict(Decision.REQUIRE_APPROVAL, "a human must look", "gate"),
    "patient": Verdict(
        Decision.REQUIRE_APPROVAL, "take your time", "days", wait=Wait(86_400_000, OnTimeout.DENY, "24h")
    ),
    "hasty": Verdict(Decision.REQUIRE_APPROVAL, "now", "seconds", wait=Wait(60_000, OnTimeout.DENY, "60s")),
    "brief": Verdict(Decision.REQUIRE_APPROVAL, "hurry", "minutes", wait=Wait(200_000, OnTimeout.FAIL, "200s")),
    "denied": Verdict(Decision.DENY, "no", "default"),
}
AGENTS = ("triage", "billing")
CONSUMERS = ("c1", "c2")
STEP_ENDS = {"step.completed", "step.timed_out", "step.cancelled"}
PICKS = st.lists(st.integers(0, 99), min_size=1, max_size=6)
MOVES: dict[str, Any] = {
    "create": st.tuples(st.sampled_from(AGENTS)),
    "connect": st.tuples(st.sampled_from(AGENTS), st.sampled_from(CONSUMERS)),
    "lose_agent": st.tuples(st.sampled_from(AGENTS), st.sampled_from(CONSUMERS)),
    "connect_runner": st.tuples(st.sampled_from(("geo-1", "geo-2"))),
    "lose_runners": st.tuples(),
    "invoke": st.tuples(
        PICKS,
        st.sampled_from(
            ("notes.find", "geo.lookup", "gated", "gated", "patient", "brief", "hasty", "denied", "denied")
        ),
        st.booleans(),
        st.sampled_from(("", "", "k1", "k2")),
    ),
    "wait": st.tuples(PICKS, st.sampled_from(("go", "stop")), st.sampled_from(("", "w"))),
    "call_and_report": st.tuples(
        PICKS, st.booleans(), st.sampled_from(("success", "failure", "retry", "retry", "retry", "nothing", "late"))
    ),
    "wait_and_resume": st.tuples(PICKS, st.sampled_from(("go", "stop"))),
    "end": st.tuples(PICKS, st.booleans()),
    "report": st.tuples(PICKS, st.booleans()),
    "report_job": st.tuples(PICKS, st.booleans(), st.booleans()),
    "start": st.tuples(PICKS),
    "signal": st.tuples(PICKS, st.sampled_from(("go", "stop"))),
    "resolve": st.tuples(PICKS, st.booleans()),
    "cancel": st.tuples(PICKS),
    "send_fails": st.tuples(PICKS),
    "later": st.tuples(st.sampled_from((-5, 1, 2, 2, 4, 31))),
    "much_later": st.tuples(st.sampled_from((301, 301, 301, 301, 301, 3_601))),
    "crash_soon": st.tuples(st.booleans()),
}
OFTEN = (
    "create",
    "create",
    "create",
    "connect",
    "connect",
    "invoke",
    "invoke",
    "call_and_report",
    "call_and_report",
    "call_and_report",
    "resolve",
    "end",
)
LOSSES = ("lose_agent", "much_later", "much_later")
MOVE = st.one_of([st.tuples(st.just(name), MOVES[name]) for name in (*OFTEN, *LOSSES, *MOVES)])
REPORTS = (  # of a hosted run, before each of its intents
    ("run.step", {"name": "think", "place": 1, "started_at": "", "ended_at": "", "bytes": 2}),
    ("run.progress", {"pct": 50.0, "text": "half", "at": ""}),
    ("run.tokens", {"input_tokens": 1}),
)
seen: Counter[str] = Counter()


class Lives(RuleBasedStateMachine):
    """A house in which things go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.house = House()
        self.house.policy.verdicts |= VERDICTS
        self.store, self.kernel = self.house.store, self.house.kernel
        self.told: dict[str, Execution] = {}  # by the log, as far as it was read
        self.shown: dict[str, Execution] = {}  # by GET, at the last check
        self.crash: bool | None = None  # the next commit is cut off: before it is applied, or after
        self.store.on_commit = self._maybe_crash
        for agent_id in AGENTS:
            self.house.join("c1", agent_id)
            self.kernel.create(agent_id, None, {})
        self.house.link()

    @rule(moves=st.lists(MOVE, min_size=10, max_size=30))
    def live(self, moves: list[tuple[str, tuple[Any, ...]]]) -> None:
        for name, given in moves:
            getattr(self, name)(*given)
            self.check()

    def create(self, agent_id: str) -> None:
        self._try(self.kernel.create, agent_id, {"ticket": 91}, {"env": "qa"})

    def connect(self, agent_id: str, consumer_id: str) -> None:
        self.house.join(consumer_id, agent_id)
        self._try(self.house.assigner.offer, agent_id)

    def lose_agent(self, agent_id: str, consumer_id: str) -> None:
        self.house.leave(consumer_id, agent_id)
        for found in self._living(agent_id):
            if found.session and found.session.consumer_id == consumer_id:
                self._try(self.kernel.agent_lost, found.id, found.session.id)

    def connect_runner(self, name: str) -> None:
        link = self.house.link(name)
        self._try(self.house.dispatcher.pump, link.connection)

    def lose_runners(self) -> None:
        links = list(self.store.links.values())
        self.store.links.clear()
        for link in links:
            for found, step in self._steps(lambda step: step.job is not None):
                if step.job and step.job.held_by == link.connection:
                    self._try(self.kernel.requeue, found.id, step.id, link.job_id)

    def invoke(self, picks: list[int], tool_id: str, remote: bool, key: str) -> None:
        remote = remote or tool_id == "geo.lookup"
        self._act(picks, Intent("invoke_tool", tool_id, remote=remote, idempotency_key=key))

    def wait(self, picks: list[int], signal_type: str, key: str) -> None:
        self._act(picks, Intent("wait", signal_type=signal_type, idempotency_key=key))

    def call_and_report(self, picks: list[int], remote: bool, fate: str) -> None:
        self._act(picks, Intent("invoke_tool", "geo.lookup", remote=remote))
        self.start(picks)
        if fate == "nothing":
            return
        if fate == "late":
            self.later(301)
        if remote:
            self.report_job(picks, fate == "success", fate == "retry")
        else:
            self.report(picks, fate == "success")

    def wait_and_resume(self, picks: list[int], signal_type: str) -> None:
        self._act(picks, Intent("wait", signal_type=signal_type))
        self.resolve(picks, True)

    def end(self, picks: list[int], fails: bool) -> None:
        for found in self._living():
            for step in found.steps.values():
                session_id = found.session.id if found.session else "none"
                self._try(self.kernel.step_result, found.id, session_id, step.id, True, None, "")
        self._act(picks, Intent("fail", error="boom") if fails else Intent("complete", output={"done": True}))

    def report(self, picks: list[int], success: bool) -> None:
        for found, step in self._some(self._steps(lambda step: not step.remote), picks):
            session_id = found.session.id if found.session else "none"
            self._try(self.kernel.step_result, found.id, session_id, step.id, success, {"hits": 2}, "no")

    def report_job(self, picks: list[int], success: bool, retryable: bool) -> None:
        for found, step in self._some(self._steps(lambda step: step.job is not None), picks):
            report = (success, None, "no", retryable)
            self._try(self.kernel.job_result, "geo-1", step.job.id if step.job else "", found.id, step.id, *report)

    def start(self, picks: list[int]) -> None:
        for found, step in self._some(self._steps(lambda step: step.job is not None), picks):
            self._try(self.kernel.started, step.id, found.id, "geo-1")

    def signal(self, picks: list[int], signal_type: str) -> None:
        for found in self._some(self._living(), picks):
            self._try(self.kernel.signal, found.id, signal_type, {"by": "mia"})

    def resolve(self, picks: list[int], approved: bool) -> None:
        for found in self._some(self._blocked(), picks):
            reason, ref = (found.blocked.reason, found.blocked.ref) if found.blocked else ("", "")
            payload = {"step_id": ref, "approved": approved}
            signal = ("step.approve", payload) if reason == "approval" else (ref, None)
            self._try(self.kernel.signal, found.id, *signal)

    def cancel(self, picks: list[int]) -> None:
        for found in self._some(self._living(), picks[:1]):
            self._try(self.kernel.cancel, found.id)

    def send_fails(self, picks: list[int]) -> None:
        fresh = [found for found in self._living() if found.session and not found.session.has_shown_life]
        for found in self._some(fresh, picks):
            self._try(self.kernel.send_failed, found.id, found.session.id if found.session else "")

    def later(self, seconds: int) -> None:
        self.house.now += seconds * 1_000
        self._sweep()

    def much_later(self, seconds: int) -> None:
        self.later(seconds)

    def crash_soon(self, applied: bool) -> None:
        self.crash = applied

    def check(self) -> None:
        """After every move, what the log tells is what GET shows."""
        for execution_id, kept in self.store.kept.items():
            found = kept.execution
            if found is self.shown.get(execution_id):
                continue
            state = self.told.get(execution_id)
            for event in kept.log[state.sequence if state else 0 :]:
                state = evolve(state, event)
            assert state is not None and told(state) == told(found)
            self.told[execution_id], self.shown[execution_id] = state, found

    def teardown(self) -> None:
        self.crash, self.store.on_commit = None, lambda _change, _applied: None
        for _ in range(2):  # a wait of a day, begun on a clock that was ahead, and what its execution had left
            self.house.now += 86_400_000 + 3_600_000
            self._sweep()
        for kept in self.store.kept.values():
            found, log = kept.execution, kept.log
            check(found, log)
            assert found.status.is_terminal and log[-1].type in TERMINAL
            assert ended_steps(log) == Counter(event.step_id for event in log if event.type == "step.created")
            seen.update(event.type for event in log)
            seen["clocks that stood still"] += found.paused_ms > 0
            seen["denied by time"] += sum(event.payload.get("reason") == BY_TIME for event in log)
        assert self.store.jobs == []

    def _act(self, picks: list[int], intent: Intent) -> None:
        working = [found for found in self._living() if found.session]
        running = [found for found in working if found.status is Status.RUNNING]
        for found in self._some(working if picks[0] == 0 else running, picks):
            session_id = found.session.id if found.session else ""
            self._try(self.kernel.intent, found.id, session_id, intent, "", REPORTS)

    def _sweep(self) -> None:
        for execution_id in list(self.store.kept):
            self._try(self.kernel.run_due_timers, execution_id)

    def _living(self, agent_id: str = "") -> list[Execution]:
        found = [kept.execution for kept in self.store.kept.values()]
        return [one for one in found if not one.status.is_terminal and agent_id in ("", one.agent_id)]

    def _blocked(self) -> list[Execution]:
        return [found for found in self._living() if found.status is Status.BLOCKED]

    def _steps(self, which: Any) -> list[tuple[Execution, Step]]:
        return [(found, step) for found in self._living() for step in found.steps.values() if which(step)]

    def _some(self, choices: list[Any], picks: list[int]) -> list[Any]:
        """The choices that the picks stand for, each once."""
        places = dict.fromkeys(pick % len(choices) for pick in picks) if choices else {}
        return [choices[place] for place in places]

    def _try(self, call: Any, *args: Any) -> None:
        with suppress(KernelError, Killed):
            call(*args)

    def _maybe_crash(self, _change: Change, applied: bool) -> None:
        if self.crash is applied:
            self.crash = None
            raise Killed


def ended_steps(log: list[Event]) -> Counter[str]:
    return Counter(
        event.step_id
        for event in log
        if event.type in STEP_ENDS or (event.type == "step.failed" and not event.payload["retryable"])
    )


def check(found: Execution, log: list[Event]) -> None:
    """The log has no gap and at most one end, which is its last event; its fold is what GET shows."""
    assert [event.sequence for event in log] == list(range(1, len(log) + 1))
    assert len({event.id for event in log}) == len(log)
    assert [event.at_ms for event in log] == sorted(event.at_ms for event in log)
    assert not any(event.type in TERMINAL for event in log[:-1])
    assert told(fold(log)) == told(found)


def told(found: Execution) -> Execution:
    """What events tell of an execution: not who holds a job, nor clocks."""
    steps = {step.id: replace(step, job=None) for step in found.steps.values()}
    session = replace(found.session, expires_at_ms=0, has_shown_life=False) if found.session else None
    unattended = None if found.unattended_at_ms is None else 0
    return replace(found, steps=steps, session=session, unattended_at_ms=unattended, version=0, clock_ms=0)


def lives(histories: int, **more: Any) -> None:
    seen.clear()
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=histories,
            stateful_step_count=4,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            **more,
        ),
    )


def test_the_log_tells_the_truth_through_crashes_and_clock_jumps():
    lives(100)

    rare = {name: seen[name] for name in PAYLOADS if seen[name] < 50}
    assert not rare and min(seen["clocks that stood still"], seen["denied by time"]) >= 10


@pytest.mark.slow
def test_the_log_tells_the_truth_through_two_thousand_histories():
    lives(2_000)

    assert min(seen[name] for name in PAYLOADS) >= 50
