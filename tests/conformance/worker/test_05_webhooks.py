"""Worker specification, section 8, cases 53, 55 and 56; case 54 is with the contracts."""

import json
import socket
import time
from dataclasses import replace

import pytest
from standardwebhooks import Webhook

from piecework.net.addresses import AddressRefused, is_public
from piecework.webhooks.deliveries import Announcer
from piecework.webhooks.sending import Sender
from piecework.worker.webhook.webhooks import USER_AGENT, delivery_of
from tests.support.fakes import FakeClock
from tests.support.worker.contracts import SECRET
from tests.support.worker.hooks import FakeDeliveries, FakeQueue, a_post, hook_server
from tests.support.worker.stage import Stage, stub_facilitator

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


HERE = {"127.0.0.1"}


@pytest.fixture
def hooks():
    with hook_server() as running:
        yield running


def a_stage(facilitator, deliveries, queue):
    announcer = Announcer(deliveries, queue)

    def announce(execution, contract):
        views = stage.worker.views
        body = views.recorded(execution, contract).body
        poll_url = views.bodies.poll_url(execution)
        made = delivery_of(
            contract,
            body,
            generation=execution.generation,
            occurred_at_ms=execution.outcome.finished_at_ms,
            poll_url=poll_url,
        )
        announcer.announce(made)

    clock = FakeClock(int(time.time()) * 1000)  # the seeker's library refuses old time stamps
    stage = Stage(facilitator, clock=clock, ports={"announce": announce})
    return stage


def a_hooked_contract(stage, url):
    contract = replace(stage.contract(), webhook_url=url, webhook_secret=SECRET)
    stage.contracts.items[contract.contract_id] = contract
    return contract


def test_webhook_signed_and_retried(hooks):
    deliveries, queue = FakeDeliveries(), FakeQueue()
    hooks.statuses = [500, 500, 200]
    with stub_facilitator() as facilitator:
        stage = a_stage(facilitator, deliveries, queue)
        contract = a_hooked_contract(stage, hooks.url())
        stage.post(contract, {"brief": "b"})
        assert queue.asked == []  # nothing is told before it is paid

        paid = stage.post(contract, {"brief": "b"}, stage.pay(contract))

        sender = Sender(deliveries, a_post(), queue, stage.clock, user_agent=USER_AGENT)
        outcomes = []
        while queue.asked:
            wanted = queue.take()
            stage.clock.now_ms = max(stage.clock.now_ms, wanted.not_before_ms)
            outcomes.append(sender.handle(wanted))

    assert paid.status == 200
    assert outcomes == ["failed", "failed", "delivered"]
    assert len(hooks.posted) == 3
    assert len({post.headers["webhook-id"] for post in hooks.posted}) == 1
    assert {post.body for post in hooks.posted} == {hooks.posted[0].body}
    for post in hooks.posted:
        told = Webhook(SECRET).verify(post.body, post.headers)
        assert (told["event"], told["contract_id"]) == ("task_completed", contract.contract_id)
        assert told["payment"]["status"] == "settled"
        assert told["task_id"] == paid.body["task_id"]
        assert post.headers["user-agent"] == "hire-worker/1"


def test_webhook_signed_and_retried_says_nothing_until_it_is_paid():
    deliveries, queue = FakeDeliveries(), FakeQueue()
    with stub_facilitator() as facilitator:
        stage = a_stage(facilitator, deliveries, queue)
        contract = a_hooked_contract(stage, "https://seeker.example/hook")
        facilitator.say("settle", "500", "ok")

        unclear = stage.post(contract, {"brief": "b"}, stage.pay(contract))
        while_unclear = list(queue.asked)
        stage.settle_down(600)

    assert unclear.status == 202
    assert while_unclear == []
    assert len({wanted.event_id for wanted, _ in queue.asked}) == 1
    [delivery] = deliveries.kept.values()
    assert b'"status":"settled"' in delivery.body


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["169.254.169.254"], ["::ffff:127.0.0.1"], ["fd00:ec2::254"]],
)
def test_webhook_ssrf_dynamic(hooks, monkeypatch, addresses):
    dialled = []
    monkeypatch.setattr(socket, "create_connection", lambda address, **_: dialled.append(address) or 1 / 0)

    with pytest.raises(AddressRefused):
        a_post(resolve=lambda host, port: addresses, allow=is_public)(hooks.url(), b"{}", {})

    assert dialled == []


def test_webhook_ssrf_dynamic_rebinding(hooks):
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    asked = []

    def resolve(host, port):
        asked.append(host)
        return answers[len(asked) - 1]

    status = a_post(resolve=resolve)(hooks.url(), b"{}", {})

    assert status == 200
    assert len(asked) == 1  # what was vetted is what was connected to; the name is not asked again


def test_webhook_ssrf_dynamic_redirect(hooks):
    hooks.statuses = [302]

    status = a_post()(hooks.url(), b"{}", {})

    assert status == 302  # an answer like any other: nothing is followed
    assert len(hooks.posted) == 1


@pytest.mark.parametrize("path", ["/drip", "/huge"])
def test_webhook_slow_or_huge(hooks, path):
    began = time.monotonic()

    status = a_post(seconds=3.0)(hooks.url(path), json.dumps({"a": 1}).encode(), {})

    assert status == 200  # the status came in time, and that is what counts
    assert time.monotonic() - began < 30  # it would drip for ever
    assert hooks.written < 50_000_000
