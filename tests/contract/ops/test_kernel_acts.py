"""The kernel through the operator's door over both stores: two who answer at once, and what each view asks for."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from piecework.ops.kernel_routes import KERNEL
from tests.support.counted import Counted
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import GATED, KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.ops.kernel import KernelOps
from tests.support.ops.streams import Reader

READS = {"get_item", "batch_get_item", "query", "transact_get_items"}


@pytest.fixture(params=["memory", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    store = None if request.param == "memory" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    return KernelStage(store=store, clock=clock)


def door_over(stage):
    return KernelOps(desk=SimpleNamespace(stage=stage))


def gated(stage):
    """An execution, and its step that waits for a person."""
    agent, execution_id = stage.agent(), stage.create({"n": 1})
    return execution_id, stage.invoke(agent.take("execution.assigned"), GATED)


def test_of_two_who_answer_at_once_one_is_told_what_the_other_said(stage):
    ops = door_over(stage)
    execution_id, step_id = gated(stage)
    path = f"{KERNEL}/executions/{execution_id}/approvals/{step_id}"

    with ThreadPoolExecutor(2) as people:
        said = {"approver": True, "bob": False}
        asked = {name: people.submit(ops.ask, name, "POST", path, {"approved": yes}) for name, yes in said.items()}
    answers = {name: one.result() for name, one in asked.items()}

    [first] = [name for name, answer in answers.items() if answer.status == 200]
    [second] = [answer for name, answer in answers.items() if name != first]
    stood = ops.get(path)["answer"]
    assert (second.status, second.body["code"]) == (409, "conflict")
    assert second.body["details"] == {
        "step_id": step_id,
        "approved": said[first],
        "by": f"ops:{first}",
        "at": stood["at"],
    }
    assert (stood["approved"], stood["by"]) == (said[first], f"ops:{first}")


def test_every_view_reads_what_people_have_done(stage):
    ops = door_over(stage)
    execution_id, step_id = gated(stage)
    one = f"{KERNEL}/executions/{execution_id}"

    assert [each["step_id"] for each in ops.get(f"{KERNEL}/approvals")["approvals"]] == [step_id]
    assert ops.ask("approver", "POST", f"{one}/approvals/{step_id}", {"approved": False}).status == 200
    assert ops.ask("operator", "POST", f"{one}/cancel", {}).status == 200

    log = ops.get(f"{one}/events", limit="1000")["events"]
    assert [row["id"] for row in ops.get(f"{KERNEL}/executions", agent_id="triage")["executions"]] == [execution_id]
    assert ops.get(f"{KERNEL}/approvals", state="answered")["approvals"][0]["answer"]["by"] == "ops:approver"
    assert {event.get("by") for event in log} >= {"ops:approver", "ops:operator"}
    assert ops.get(one)["status"] == "cancelled"

    async def watched():
        return await (await Reader(ops.streaming.app, f"{one}/stream").open()).rest()

    assert [event["data"] for event in asyncio.run(watched())] == log


def test_views_only_read_and_an_answer_asks_for_one_read_more_than_at_the_kernel_door(embedded_aws):
    clock = FakeClock(START_MS)
    client = Counted(embedded_aws.client("dynamodb"))
    stage = KernelStage(store=new_tables(embedded_aws, clock, client=client), clock=clock)
    ops = door_over(stage)
    (first, step), (second, other) = gated(stage), gated(stage.copy())
    lists = ("executions", "approvals", "agents", "runners", "tools")

    client.take()
    for path in (*lists, f"executions/{first}", f"executions/{first}/events", f"executions/{first}/approvals/{step}"):
        ops.get(f"{KERNEL}/{path}")
    assert set(client.sent) <= READS

    client.take()
    stage.kernel.signal(first, "step.approve", {"step_id": step, "approved": True})
    at_the_door = client.take()
    ops.ask("approver", "POST", f"{KERNEL}/executions/{second}/approvals/{other}", {"approved": True})
    assert client.take() == at_the_door + 1
