"""A paused kernel door creates nothing, and everything that was created goes on."""

from types import SimpleNamespace

import pytest

from piecework.aws.rows.pauses import PausesRow
from piecework.durable.pauses import Pause
from piecework.errors import Paused
from piecework.kernel.errors import DoorPaused
from piecework.kernel.model.state import Status
from piecework.kernel.wiring import KernelDoor
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import KernelStage
from tests.support.ops.pauses import Switch

AGENT = "triage"


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def stage(switch):
    parts = {"can_wake": True, "hosted_names": {"desk"}, "wake": lambda execution_id, delay_ms: None}
    return KernelStage(clock=FakeClock(START_MS), _admission=switch.admission, **parts)


def test_a_create_is_refused_and_stores_nothing_while_the_door_is_paused(stage, switch):
    switch.pause("door:kernel")

    with pytest.raises(DoorPaused) as refused:
        stage.create(agent_id=AGENT)
    assert (refused.value.status, dict(refused.value.headers)) == (503, {"Retry-After": "30"})
    assert refused.value.code == "SERVICE_UNAVAILABLE" and "kernel door is paused" in refused.value.text
    assert stage.store.connections.waiting(AGENT, 9) == 0
    switch.resume("door:kernel")

    assert stage.create(agent_id=AGENT)


def test_what_was_created_is_given_out_and_ends_while_the_door_is_paused(stage, switch):
    waiting = stage.create(agent_id=AGENT)
    switch.pause("door:kernel")

    session = stage.agent(AGENT).take("execution.assigned")
    step = stage.invoke(session, "notes.find")
    stage.report(session, step, {"found": 1})
    stage.intend(session, "complete", output=1, has_output=True)

    assert stage.status(waiting) is Status.COMPLETED


def test_a_run_again_is_new_work_unless_its_key_has_made_it_before(stage, switch):
    ended = stage.create(agent_id=AGENT)
    stage.kernel.cancel(ended)
    made = stage.kernel.again(ended, "k1").execution.id
    switch.pause("door:kernel")

    assert stage.kernel.again(ended, "k1").execution.id == made
    with pytest.raises(DoorPaused):
        stage.kernel.again(ended, "k2")


def test_a_paused_executor_gets_no_executions_as_a_hosted_agent_and_connected_agents_of_other_names_do(stage, switch):
    running = stage.create(agent_id="desk")
    switch.pause("executor:desk")
    switch.pause(f"executor:{AGENT}")

    with pytest.raises(DoorPaused, match="desk"):
        stage.create(agent_id="desk")
    assert stage.create(agent_id=AGENT)  # an agent that connects is not an executor
    assert stage.status(running) is Status.RUNNING


def test_a_door_that_is_told_the_results_table_obeys_the_pauses_in_it(embedded_aws):
    client, table = embedded_aws.client("dynamodb"), embedded_aws.new_table()
    PausesRow(client, table).begin(Pause("executor:desk", START_MS, "mia", "x"))
    door, untold = KernelDoor({"PIECEWORK_TABLE": table}), KernelDoor({})
    vars(door)["clients"] = vars(untold)["clients"] = SimpleNamespace(dynamodb=client)

    with pytest.raises(Paused, match="desk"):
        door._admit("desk")
    door._admit("triage")
    untold._admit("desk")
