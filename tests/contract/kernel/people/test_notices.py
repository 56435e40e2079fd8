"""Notices about approvals: written with their commit, handed over and published at least once, without arguments."""

import json
import re
from typing import Any

import pytest

from piecework.aws.queues import Topic
from piecework.edge.roles import parse_roles
from piecework.errors import BadRequest, PieceworkError, RequestRejected, Unavailable
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.due_times import message_of, record_of
from piecework.kernel.model.notices import NOTICE_DUE, Notice, What
from piecework.kernel.service.notices import Notices
from piecework.kernel.wiring import KernelDoor
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.house import Killed
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

GATES = """
    rules:
      - id: refund
        when: {tool_id: pay.refund}
        then: {decision: require_approval, timeout: 2h, private: true, notify: finance}
      - {id: quiet, priority: 1, then: {decision: require_approval}}
"""


@pytest.fixture(params=["fake", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    aws = request.getfixturevalue("embedded_aws") if request.param == "dynamodb" else None
    return KernelStage(clock=clock, store=new_tables(aws, clock) if aws else new_store(clock), policy=a_policy(GATES))


def asking(stage: KernelStage, tool_id: str = "pay.refund") -> tuple[str, str]:
    line = stage.agent("desk", "one")
    execution = stage.create(agent_id="desk")
    session = line.take("execution.assigned")["session_id"]
    intent = Intent("invoke_tool", tool_id, {"card": "4111-secret"}, True, remote=True)
    return execution, stage.kernel.intent(execution, session, intent)["step_id"]


def answer(stage: KernelStage, asked: tuple[str, str], approved: bool = True) -> None:
    payload = {"step_id": asked[1], "approved": approved, "reason": "https://evil.example"}
    stage.kernel.signal(asked[0], "step.approve", payload, parse_roles("").caller("mia"))


def kept(stage: KernelStage) -> list[Any]:
    return sorted(stage.store.due_times.ripe(NOTICE_DUE, stage.clock() + 10**9))


def told(stage: KernelStage) -> list[dict[str, Any]]:
    """What is published of the notices that are there."""
    out: list[Any] = []
    notices = Notices(stage.store.executions, lambda *message: out.append(message))
    assert {notices.tell(due) for due in kept(stage)} <= {"told"}
    return out


def test_each_event_of_an_approval_leaves_a_notice_in_its_own_commit(stage):
    asked = asking(stage)
    assert [Notice.of(due) for due in kept(stage)] == [(asked[0], Notice(What.NEEDED, asked[1]))]
    stage.clock.move(1)
    answer(stage, asked)
    assert [Notice.of(due)[1].what for due in kept(stage)] == ["needed", "answered"]


def test_time_leaves_a_notice_too(stage):
    execution, _ = asking(stage)
    stage.clock.move(7_200)
    stage.kernel.run_due_timers(execution)

    assert [Notice.of(due)[1].what for due in kept(stage)] == ["needed", "expired"]
    assert told(stage)[1][1]["summary"] == 'Nobody answered in time about "pay.refund" of agent "desk".'


def test_a_rule_without_a_name_leaves_none(stage):
    answer(stage, asking(stage, "mail.send"))

    assert kept(stage) == []


def test_a_crash_after_the_commit_loses_no_notice():
    store = new_store(FakeClock(START_MS))
    stage = KernelStage(clock=store.clock, store=store, policy=a_policy(GATES))
    asked = asking(stage)

    def crash(_change, applied):
        if applied:
            raise Killed

    store.on_commit = crash
    with pytest.raises(Killed):
        answer(stage, asked)

    assert {Notice.of(due)[1].what for due in kept(stage)} == {"needed", "answered"}


def test_a_notice_says_what_is_needed_and_never_what_the_call_says(stage):
    execution, step = asking(stage)
    answer(stage, (execution, step), approved=False)
    needed, answered = sorted(told(stage), key=lambda message: message[1]["notice"], reverse=True)

    assert needed[0] == "A call waits for a person"
    assert needed[2] == {"notice": "needed", "notify": "finance"}
    known = {name: needed[1][name] for name in ("execution_id", "step_id", "agent_id", "tool_id", "rule_id")}
    assert known == {
        "execution_id": execution,
        "step_id": step,
        "agent_id": "desk",
        "tool_id": "pay.refund",
        "rule_id": "refund",
    }
    assert (needed[1]["approved"], answered[1]["approved"]) == (None, False)
    assert answered[1]["by"] == "mia" and answered[1]["summary"].endswith("was denied.")
    for message in (needed, answered):
        assert not re.search("secret|4111|evil|http", json.dumps(message))


def test_a_forgotten_execution_is_not_told_about(stage):
    execution, _ = asking(stage)
    [due] = kept(stage)
    stage.kernel.cancel(execution)
    stage.store.executions.forget(execution)

    assert Notices(stage.store.executions, lambda *_: pytest.fail("published")).tell(due) == "gone"


def test_what_is_no_notice_is_refused(stage):
    from piecework.durable.due import Due

    for due in (Due(1, "kernel", "needed.e.s"), Due(1, NOTICE_DUE, "gone.e.s"), Due(1, NOTICE_DUE, "needed.e")):
        with pytest.raises(BadRequest):
            Notices(stage.store.executions, lambda *_: None).tell(due)


class Bus:
    """A queue that takes messages, or does not."""

    def __init__(self, fails: Any = None) -> None:
        self.sent, self.fails = list[Any](), fails

    def send_all(self, messages: Any) -> int:
        if isinstance(self.fails, PieceworkError):
            raise self.fails
        self.sent += messages
        return int(self.fails or 0)


def a_due_door(stage: KernelStage, bus: Bus | None) -> KernelDoor:
    door = KernelDoor({})
    door.__dict__ |= {"due_times": stage.store.due_times, "_notices_queue": bus}
    return door


def test_a_sweep_hands_notices_over_and_removes_them(stage):
    asking(stage)
    due, bus = kept(stage), Bus()

    assert a_due_door(stage, bus).hand_over(due) == 0
    assert bus.sent == [message_of(one) for one in due] and kept(stage) == []
    assert record_of(due[0])["notice"] == "needed"


@pytest.mark.parametrize("fails", [Unavailable("the queue is out of reach"), 1])
def test_notices_that_the_queue_did_not_take_stay(stage, fails):
    asking(stage)
    due = kept(stage)

    assert a_due_door(stage, Bus(fails)).hand_over(due) == 1
    assert kept(stage) == due


def test_without_a_topic_notices_are_dropped(stage):
    asking(stage)

    assert a_due_door(stage, None).hand_over(kept(stage)) == 0
    assert kept(stage) == []


def test_a_topic_hands_a_notice_to_its_subscribers(embedded_aws):
    sns, sqs = embedded_aws.client("sns"), embedded_aws.client("sqs")
    topic = sns.create_topic(Name="approvals")["TopicArn"]
    queue = sqs.create_queue(QueueName="approvals-told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    clients = embedded_aws.clients

    Topic(lambda: clients.sns, topic).publish("A call waits", {"tool_id": "pay ü&=+%"}, {"notify": "finance"})

    [message] = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2)["Messages"]
    heard = json.loads(message["Body"])
    assert json.loads(heard["Message"]) == {"tool_id": "pay ü&=+%"}
    assert heard["MessageAttributes"]["notify"]["Value"] == "finance"
    with pytest.raises((RequestRejected, Unavailable)):
        Topic(lambda: clients.sns, topic + "-none").publish("A call waits", {}, {"notify": "finance"})
