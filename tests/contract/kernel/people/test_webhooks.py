"""Webhooks about approvals: from the call that waits to the server of an operator's, over both stores."""

import json
import re
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from piecework.edge.roles import parse_roles
from piecework.errors import SettingsError, Unavailable
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.notices import NOTICE_DUE, OWNER
from piecework.kernel.service.notices import Notices
from piecework.kernel.webhooks import USER_AGENT
from piecework.net.addresses import is_public
from piecework.webhooks.deliveries import Announcer, DeliveryState, Try
from piecework.webhooks.receivers import addressed_by, parse_receivers
from piecework.webhooks.sending import LADDER_SECONDS, Sender
from piecework.webhooks.store import kernel_deliveries
from tests.support.fakes import FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.worker.contracts import SECRET
from tests.support.worker.hooks import FakeDeliveries, FakeQueue, a_post, hook_server

GATES = """
    rules:
      - id: refund
        when: {tool_id: pay.refund}
        then: {decision: require_approval, timeout: 2h, private: true, notify: "webhook:desk"}
      - {id: letters, priority: 1, then: {decision: require_approval, notify: letters}}
"""
CALL = {"card": "4111-secret"}


class World:
    """A kernel, the sender of its webhooks, and what both keep."""

    def __init__(self, stage: KernelStage, deliveries: Any) -> None:
        self.stage, self.deliveries, self.queue = stage, deliveries, FakeQueue()
        self.line = stage.agent("desk", "one")
        self.published: list[Any] = []
        self.warned: list[dict[str, Any]] = []
        announcer = Announcer(deliveries, self.queue)
        self.notices = Notices(stage.store.executions, lambda *told: self.published.append(told), announcer.announce)

    def ask(self, tool_id: str = "pay.refund") -> tuple[str, str]:
        execution = self.stage.create(agent_id="desk")
        self.line.look()
        session = self.line.of("execution.assigned")[-1]["session_id"]
        intent = Intent("invoke_tool", tool_id, CALL, True, remote=True)
        return execution, self.stage.kernel.intent(execution, session, intent)["step_id"]

    def answer(self, asked: tuple[str, str], approved: bool = True) -> None:
        payload = {"step_id": asked[1], "approved": approved, "reason": "https://evil.example"}
        self.stage.kernel.signal(asked[0], "step.approve", payload, parse_roles("").caller("mia"))

    def tell(self) -> list[str]:
        """What the notices function does of all notices; then they are gone."""
        kept = sorted(self.stage.store.due_times.ripe(NOTICE_DUE, self.stage.clock() + 10**9))
        came = [self.notices.tell(due) for due in kept]
        for due in kept:
            self.stage.store.due_times.remove(due)
        return came

    def sender(self, post: Any, receivers: str = "") -> Sender:
        listed = receivers or f"desk=https://hooks.example.com/approvals {SECRET}"
        return Sender(
            self.deliveries,
            post,
            self.queue,
            self.stage.clock,
            warn=lambda event, **fields: self.warned.append(fields),
            owner=OWNER,
            user_agent=USER_AGENT,
            addressed=addressed_by(lambda: parse_receivers(listed)),
        )

    def work_off(self, sender: Sender) -> list[str]:
        """The sender's outcomes until its queue is empty; the clock goes with the messages."""
        outcomes = []
        while self.queue.asked:
            wanted = self.queue.take()
            self.stage.clock.now_ms = max(self.stage.clock.now_ms, wanted.not_before_ms)
            outcomes.append(sender.handle(wanted))
        return outcomes


@pytest.fixture(params=["fake", "dynamodb"])
def world(request):
    clock = FakeClock(int(time.time()) * 1000)  # a receiver's library refuses old time stamps
    if request.param == "fake":
        return World(KernelStage(clock=clock, store=new_store(clock), policy=a_policy(GATES)), FakeDeliveries())
    store = new_tables(request.getfixturevalue("embedded_aws"), clock)
    stage = KernelStage(clock=clock, store=store, policy=a_policy(GATES))
    return World(stage, kernel_deliveries(store.client, store.table, clock))


@pytest.fixture
def server():
    with hook_server() as running:
        yield running


def posting_to(server):
    post = a_post()
    return lambda url, body, headers: post(server.url("/approvals"), body, headers)


def test_a_waiting_approval_arrives_signed_and_is_sent_again_until_it_is_taken(world, server):
    server.statuses = [500, 302, 200]
    execution, step = world.ask()

    assert world.tell() == ["handed_over"]
    outcomes = world.work_off(world.sender(posting_to(server)))

    assert outcomes == ["failed", "failed", "delivered"]
    assert {post.headers["webhook-id"] for post in server.posted} == {json.loads(server.posted[0].body)["notice_id"]}
    for post in server.posted:
        told = Webhook(SECRET).verify(post.body, post.headers)
        assert {
            "execution_id": execution,
            "step_id": step,
            "notice": "needed",
            "tool_id": "pay.refund",
        }.items() <= told.items()
        assert post.headers["user-agent"] == "piecework-kernel/1"
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(post.body.replace(b"needed", b"answer"), post.headers)
    assert world.published == []
    assert world.warned[0] | {"status": 500, OWNER: execution} == world.warned[0]


def test_each_event_is_told_and_none_says_what_the_call_says(world, server):
    answered, expired = world.ask(), world.ask()
    world.answer(answered, approved=False)
    world.stage.clock.move(7_200)
    world.stage.kernel.run_due_timers(expired[0])

    world.tell()
    world.work_off(world.sender(posting_to(server)))

    told = [json.loads(post.body) for post in server.posted]
    assert sorted((one["execution_id"], one["notice"], one["approved"], one["by"]) for one in told) == sorted(
        [
            (answered[0], "needed", None, None),
            (answered[0], "answered", False, "mia"),
            (expired[0], "needed", None, None),
            (expired[0], "expired", False, None),
        ]
    )
    for post in server.posted:
        assert not re.search("secret|4111|evil|whsec|hooks", post.body.decode())


def test_what_is_kept_of_a_webhook_holds_neither_arguments_nor_address_nor_secret(world):
    world.ask()
    world.tell()
    wanted = world.queue.take()

    kept = world.deliveries.read(wanted.owner_id, wanted.event_id)

    assert (kept.name, kept.url, kept.secret) == ("desk", "", None)
    assert b"4111" not in kept.body


def test_a_notice_that_is_handed_over_twice_is_one_event(world):
    world.ask()
    [due] = world.stage.store.due_times.ripe(NOTICE_DUE, world.stage.clock() + 10**9)
    world.notices.tell(due)
    world.stage.clock.move(60)
    world.notices.tell(due)
    first, again = world.queue.asked
    posts: list[bytes] = []

    sender = world.sender(lambda url, body, headers: posts.append(body) or 200)
    outcomes = world.work_off(sender)
    world.notices.tell(due)

    assert first == again
    assert [*outcomes, *world.work_off(sender)] == ["delivered", "stale", "stale"] and len(posts) == 1


def test_a_crash_between_keeping_and_asking_loses_nothing(world):
    world.ask()
    [due] = world.stage.store.due_times.ripe(NOTICE_DUE, world.stage.clock() + 10**9)

    def lost(wanted: Try, seconds: int) -> None:
        assert world.deliveries.read(wanted.owner_id, wanted.event_id)  # else a fast sender would find nothing to send
        raise Unavailable("the queue is out of reach")

    crashing = replace_announce(world, lost)
    with suppress(Unavailable):
        crashing.tell(due)
    assert world.queue.asked == []

    assert world.tell() == ["handed_over"]
    assert world.work_off(world.sender(lambda *_: 204)) == ["delivered"]


def replace_announce(world: World, ask: Any) -> Notices:
    return Notices(world.stage.store.executions, None, Announcer(world.deliveries, ask).announce)


def test_410_ends_the_webhooks_of_that_execution_and_of_no_other(world):
    gone, other = world.ask(), world.ask()
    world.tell()
    sender = world.sender(lambda url, body, headers: 410 if gone[0].encode() in body else 200)
    assert sorted(world.work_off(sender)) == ["delivered", "stopped"]

    world.answer(gone)
    world.answer(other)
    world.tell()

    posts: list[bytes] = []
    assert sorted(world.work_off(world.sender(lambda url, body, headers: posts.append(body) or 200))) == [
        "delivered",
        "stopped",
    ]
    assert [json.loads(body)["execution_id"] for body in posts] == [other[0]]


def test_a_webhook_that_nobody_takes_is_given_up_after_the_ladder(world):
    world.ask()
    world.tell()
    [(wanted, _)] = world.queue.asked
    sender = replace(world.sender(lambda *_: 503), spread=lambda low, high: 1.0)

    outcomes = world.work_off(sender)

    assert [outcome for outcome in outcomes if outcome != "early"] == ["failed"] * len(LADDER_SECONDS) + ["given_up"]
    kept = world.deliveries.read(wanted.owner_id, wanted.event_id)
    assert kept.state is DeliveryState.GIVEN_UP
    assert [made.status for made in kept.tries] == [503] * (len(LADDER_SECONDS) + 1)


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["8.8.8.8", "169.254.169.254"], ["::ffff:127.0.0.1"]])
def test_a_name_that_leads_to_an_inner_address_is_not_called(world, server, addresses):
    world.ask()
    world.tell()
    sender = world.sender(a_post(resolve=lambda host, port: addresses, allow=is_public))

    assert sender.handle(world.queue.take()) == "failed"
    assert server.posted == []
    assert world.warned[0]["reason"] == "address_refused"


def test_a_name_without_an_address_counts_no_try_and_comes_back(world):
    world.ask()
    world.tell()
    wanted = world.queue.take()

    with pytest.raises(SettingsError, match="no webhook is called desk"):
        world.sender(lambda *_: pytest.fail("posted"), f"night=https://n.example/ {SECRET}").handle(wanted)

    assert world.deliveries.read(wanted.owner_id, wanted.event_id).tries == ()
    assert world.sender(lambda *_: 200).handle(wanted) == "delivered"


def test_a_rule_without_a_webhook_is_published_as_ever(world):
    world.ask("mail.send")

    assert world.tell() == ["told"]
    assert world.published[0][2] == {"notice": "needed", "notify": "letters"} and world.queue.asked == []


def test_what_this_stack_does_not_have_is_told_to_nobody(world):
    world.ask()
    world.ask("mail.send")
    world.notices = Notices(world.stage.store.executions, None, None)

    assert world.tell() == ["to_nobody", "to_nobody"]


def test_a_forgotten_execution_is_not_handed_over(world):
    execution, _ = world.ask()
    world.stage.kernel.cancel(execution)
    world.stage.store.executions.forget(execution)

    assert set(world.tell()) == {"gone"} and world.queue.asked == []
