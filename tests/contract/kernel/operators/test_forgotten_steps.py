"""Forgetting an execution of a hosted agent reaches the steps that its runs have recorded, and no others."""

import pytest

from piecework.aws.steps_table import hosted_steps
from piecework.extend.executors import Outcome, SilentLog
from piecework.extend.right import RightLost
from piecework.kernel.hosted.runs import Hosted
from piecework.kernel.store.hosted import HostedLeases
from tests.support.fakes import START_MS, FakeClock, no_renewal
from tests.support.kernel.hosted_stage import MINUTES, an_executor
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

SECRET = "what-nobody-may-know"


class Desk:
    """A hosted agent that records steps, over the kernel table."""

    def __init__(self, aws):
        self.clock, self.tables = FakeClock(START_MS), new_tables(aws, FakeClock(START_MS))
        parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: None}
        self.stage = KernelStage(clock=self.clock, store=self.tables, **parts)
        client, table = self.tables.client, self.tables.table
        said = an_executor("desk", self.run_desk)
        steps = hosted_steps(client, table, self.clock)
        ports = (self.tables.executions, self.stage.kernel, HostedLeases(client, table), steps, lambda _: said)
        self.hosted = Hosted(*ports, parts["wake"], SilentLog(), clock=self.clock, renewal=no_renewal)

    def do(self, task, run):
        return Outcome(len([run.step(f"think-{one}", lambda: {"said": task.inputs["text"]}) for one in range(3)]))

    def run_desk(self, task, run):
        return self.do(task, run)

    def run(self, text):
        execution = self.stage.create({"text": text}, agent_id="desk")
        self.word = self.hosted.run_turn(execution, self.clock() + MINUTES)
        return execution

    def left(self):
        found = self.tables.client.scan(TableName=self.tables.table)
        assert "LastEvaluatedKey" not in found
        return str(found["Items"])

    def steps(self):
        return self.left().count("'STEP#")


@pytest.fixture
def desk(embedded_aws):
    return Desk(embedded_aws)


def test_the_steps_of_its_runs_go_and_those_of_another_stay(desk):
    execution = desk.run(SECRET)
    all_steps = desk.steps()
    other = desk.run("kept")
    assert SECRET in desk.left() and all_steps == desk.steps() / 2

    desk.stage.kernel.forget(execution, "asked for", "ophelia")

    assert SECRET not in desk.left() and desk.steps() == all_steps
    assert desk.stage.kernel.get(other).input == {"text": "kept"}


def test_a_repeat_drops_the_steps_that_a_call_without_time_has_left(desk):
    execution = desk.run(SECRET)
    erase, kernel = desk.tables.executions.erase, desk.stage.kernel
    answers = iter([True] * 2 + [False] * 9)
    desk.tables.executions.erase = lambda one, _: erase(one, lambda: next(answers))

    assert kernel.forget(execution, "asked for", "ophelia").execution.forgotten.complete is False

    desk.tables.executions.erase = erase
    assert kernel.forget(execution, "asked for", "ophelia").execution.forgotten.complete is True
    assert SECRET not in desk.left() and desk.steps() == 0


def test_a_run_that_was_frozen_in_a_step_records_nothing_after_its_execution_was_forgotten(desk):
    seen = []

    def frozen(task, run):
        def think():
            desk.clock.move(60)  # its lease lapses, another run ends the execution, and somebody has it forgotten
            desk.do = lambda task, run: Outcome("done")
            desk.hosted.run_turn(task.execution_id, desk.clock() + MINUTES)
            desk.stage.kernel.forget(task.execution_id, "asked for", "ophelia")
            return {"said": SECRET}

        try:
            run.step("think", think)
        except RightLost as lost:
            seen.append(lost)
            raise

    desk.do = frozen
    execution = desk.run("short")

    assert desk.word == "lost" and len(seen) == 1
    assert desk.stage.kernel.get(execution).execution.forgotten.complete
    assert SECRET not in desk.left() and desk.steps() == 0
