"""Crash sweep of the execute flow: every named flow stopped before and after each of its calls to AWS, then recovered.

Safety: one answer per piece, never changed, at most one run more than the flow itself makes. Liveness: within a minute
of the piece's clock a resend has the flow's expected end. The runs happen over the real adapters and the embedded AWS.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from piecework.aws.bucket import EvidenceBucket, OverflowBucket
from piecework.aws.pieces_table import PiecesTable
from piecework.aws.steps_table import result_steps
from piecework.durable.pieces import INLINE_LIMIT, LEASE_MS, Claim, Pieces, Result, piece_key
from piecework.errors import KeyConflict, PieceworkError, Retryable
from piecework.extend.executors import Outcome, Run, Task
from piecework.runtime.execute.flow import Execute, fingerprint_of
from tests.support.crash import Crashed, Tap, Tapped, report
from tests.support.fakes import FakeClock, no_renewal
from tests.support.quiet import QuietLog
from tests.support.runtime.flows import SCHEMA, OneExecutor

RECOVERY_SECONDS = 60


@dataclass(frozen=True)
class Place:
    """A table and a bucket of our own on the embedded AWS."""

    dynamodb: Any
    s3: Any
    table: str
    bucket: str


@pytest.fixture(scope="module")
def place(embedded_aws) -> Place:
    return Place(
        embedded_aws.client("dynamodb"), embedded_aws.client("s3"), embedded_aws.new_table(), embedded_aws.new_bucket()
    )


class Stage:
    """The flow over the embedded AWS with a tap on both clients, and an executor that counts its runs."""

    def __init__(self, aws, answer_bytes: int = 100, failures: int = 0) -> None:
        self.clock, self.tap = FakeClock(), Tap()
        self.runs, self.failures, self.answer_bytes = 0, failures, answer_bytes
        self.step_runs = 0
        self.on_sleep: Callable[[], None] = lambda: None
        dynamodb, s3 = Tapped(aws.dynamodb, self.tap), Tapped(aws.s3, self.tap)
        self.pieces = Pieces(
            PiecesTable(dynamodb, aws.table),
            OverflowBucket(lambda: s3, aws.bucket),
            clock=self.clock,
            sleep=self.sleep,
            renewal=no_renewal,
            ttl_seconds=3600,
        )
        self.flow = Execute(
            bundle=OneExecutor(self.executor),
            pieces=self.pieces,
            steps=result_steps(dynamodb, aws.table, self.clock),
            evidence=EvidenceBucket(lambda: s3, aws.bucket),
            producer="test/probe",
            clock=self.clock,
            expires_at=lambda: self.clock() // 1000 + 3600,
            log=QuietLog(),
        )
        self.execution_id = f"exec-{uuid4().hex}"

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.on_sleep()

    def executor(self, task: Task, run: Run) -> Outcome:
        self.runs += 1
        nonce = run.step("draw", self._draw)
        if self.runs <= self.failures:
            raise Retryable("the model is busy")
        run.evidence("trace " * (self.answer_bytes // 6 if self.answer_bytes > INLINE_LIMIT else 1))
        run.artifact("answer", nonce.encode(), "text/plain")
        return Outcome({"answer": nonce})

    def _draw(self) -> str:
        self.step_runs += 1
        return uuid4().hex

    def execute(self, prompt: str = "p", seconds: float = 25.0) -> bytes:
        until_ms = self.clock() + int(seconds * 1000)
        return self.flow.execute(self.body(prompt), caller="c", until_ms=until_ms, public_url="http://x").body

    def body(self, prompt: str = "p") -> dict[str, Any]:
        return {
            **{"task_id": "t", "execution_id": self.execution_id, "attempt_id": "a", "task_type": "swarm"},
            **{"inputs": {"prompt": prompt}, "profile": "default", "stage": "explore"},
            "task_contract": {"output_schema": SCHEMA},
        }

    def claim_as_another(self) -> Claim:
        """What a runner that is about to die has done."""
        claim = self.pieces.claim(piece_key("runtime", "c", "t", self.execution_id, "a"), fingerprint_of(self.body()))
        assert isinstance(claim, Claim)
        return claim


@dataclass(frozen=True)
class Flow:
    """How a named flow is set up, what it does, how many runs its whole story may take, and how it must end."""

    name: str
    prepare: Callable[[Stage], None]
    act: Callable[[Stage], bytes]
    most_runs: int
    answer_bytes: int = 100
    failures: int = 0
    conflict: bool = False


def nothing(stage: Stage) -> None:
    pass


def recorded(stage: Stage) -> None:
    stage.execute()


def running_until_first_sleep(stage: Stage) -> None:
    claim = stage.claim_as_another()
    body = b'{"candidate_output":{"answer":"other"},"evidence_inline":[],"evidence_refs":[]}'

    def record_once() -> None:
        stage.on_sleep = lambda: None
        point, calls = stage.tap.point, stage.tap.calls  # the other runner is another process: its call is not ours
        stage.tap.arm(None)
        stage.pieces.record(claim, Result(body))
        stage.tap.point, stage.tap.calls = point, calls

    stage.on_sleep = record_once


def lapsed(stage: Stage) -> None:
    stage.claim_as_another()
    stage.clock.move(LEASE_MS / 1000 + 1)


FLOWS = [
    Flow("fresh", nothing, Stage.execute, most_runs=2),
    Flow("replay", recorded, Stage.execute, most_runs=1),
    Flow("wait", running_until_first_sleep, Stage.execute, most_runs=1),
    Flow("take_over", lapsed, Stage.execute, most_runs=2),
    Flow("conflict", recorded, lambda stage: stage.execute("other"), most_runs=1, conflict=True),
    Flow("overflow", nothing, Stage.execute, most_runs=2, answer_bytes=3 * INLINE_LIMIT),
    Flow("retryable_failure", nothing, Stage.execute, most_runs=3, failures=1),
]


def count_calls(aws, flow: Flow) -> int:
    """The calls of the flow when nothing goes wrong."""
    stage = Stage(aws, flow.answer_bytes, flow.failures)
    flow.prepare(stage)
    stage.tap.arm(None)
    try:
        flow.act(stage)
    except PieceworkError:
        assert flow.conflict or flow.failures
    return len(stage.tap.calls)


def sweep(aws, flow: Flow, point: int) -> list[str]:
    """Crash at one point, recover, and say what was broken."""
    stage = Stage(aws, flow.answer_bytes, flow.failures)
    flow.prepare(stage)
    stage.tap.arm(point)
    answered: bytes | None = None
    try:
        answered = flow.act(stage)
    except Crashed:
        pass
    except PieceworkError as error:
        return [f"{flow.name}@{point}: the crash was swallowed by {error!r}"]
    stage.tap.arm(None)
    return [f"{flow.name}@{point}: {problem}" for problem in problems_after(stage, flow, answered)]


def problems_after(stage: Stage, flow: Flow, answered: bytes | None) -> list[str]:
    started, problems = stage.clock(), []
    if answered is not None:
        problems.append("the crash did not happen")
    final, tries = None, 0
    while final is None and stage.clock() - started < RECOVERY_SECONDS * 1000:
        tries += 1
        try:
            final = stage.execute()
        except KeyConflict:
            problems.append("a resend was refused as a conflict")
            break
        except PieceworkError:
            stage.clock.move(1)
    if final is None:
        return [*problems, f"no answer within {RECOVERY_SECONDS} s after {tries} tries"]
    if stage.execute() != final:
        problems.append("two answers")
    if stage.runs > flow.most_runs:
        problems.append(f"{stage.runs} runs, at most {flow.most_runs}")
    if stage.step_runs > max(1, stage.runs):
        problems.append(f"a step ran {stage.step_runs} times")
    if flow.conflict:
        with pytest.raises(KeyConflict):
            stage.execute("other")
    if json.loads(final)["candidate_output"]["answer"] in ("", None):
        problems.append("an empty answer")
    return problems


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_no_crash_point_breaks_a_promise(place, flow):
    points = 2 * count_calls(place, flow)

    violations = [problem for point in range(points) for problem in sweep(place, flow, point)]

    report(flow.name, points, violations)
    assert points > 0 and violations == []


def test_the_sweep_notices_a_broken_promise(place, monkeypatch):
    """A table that lets a recorded answer be claimed again breaks the first promise; the sweep must say so."""
    import piecework.aws.pieces_table as module

    monkeypatch.setattr(module, "NOBODY_HOLDS_IT", module.NOBODY_HOLDS_IT + " OR attribute_exists(pk)")
    flow = next(flow for flow in FLOWS if flow.name == "replay")

    violations = [problem for point in range(2) for problem in sweep(place, flow, point)]

    assert violations
