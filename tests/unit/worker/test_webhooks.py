"""Webhooks: the signature's vector, the ladder, and what a crash or a doubled message leads to."""

import json
from dataclasses import replace

import pytest

from piecework.errors import BadRequest
from piecework.net.fetching import Unreachable
from piecework.webhooks.deliveries import Announcer, Delivery, DeliveryState, Try, message_of, try_of
from piecework.webhooks.sending import LADDER_SECONDS, Sender, headers_of
from piecework.worker.webhook.webhooks import BODY_BYTES, OWNER, bounded, delivery_of, event_id_of
from tests.support.fakes import START_MS, FakeClock
from tests.support.worker.contracts import SECRET, a_record
from tests.support.worker.handlers import worker_function
from tests.support.worker.hooks import FakeDeliveries, FakeQueue

DELIVERY = Delivery("ctr_demo01", "evt_0001", "https://seeker.example/hooks/hire", b"{}", SECRET)
TASK_ID = "task_7Q2M9ZK4T8WX1B5C0D3F6G7HJK"
FINAL = {"status": "completed", "contract_id": "ctr_demo01", "task_id": TASK_ID, "output": {"type": "json"}}


class Posts:
    """Answers with one status after the other; None means no answer."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.seen = []

    def __call__(self, url, body, headers):
        self.seen.append(headers["webhook-id"])
        status = self.statuses.pop(0)
        if status is None:
            raise Unreachable("nobody there")
        return status


def a_sender(*statuses, delivery=DELIVERY):
    deliveries, queue = FakeDeliveries(), FakeQueue()
    deliveries.put(delivery)
    sender = Sender(deliveries, Posts(*statuses), queue, FakeClock(START_MS), spread=lambda low, high: 1.0)
    return sender, deliveries, queue


def test_the_signature_is_that_of_the_specification():
    body = b'{"event":"task_completed","contract_id":"ctr_demo01"}'

    headers = headers_of(replace(DELIVERY, body=body), 1_767_600_000, "hire-worker/1")

    assert headers["webhook-signature"] == "v1,CI+cR970f9+XYgl7mauGmCb+QkSsq8Jr6ee7oGtpzi8="
    assert headers["webhook-timestamp"] == "1767600000"


def test_without_a_secret_there_is_no_signature():
    assert "webhook-signature" not in headers_of(replace(DELIVERY, secret=None), 1_767_600_000, "hire-worker/1")


def test_a_delivery_that_never_gets_through_climbs_the_ladder_and_is_given_up():
    sender, deliveries, queue = a_sender(*[500, None, 301, 404] * 3)
    queue(Try("ctr_demo01", "evt_0001"), 0)

    waits, outcomes = [], []
    while queue.asked:
        wanted, seconds = queue.asked.pop(0)
        sender.clock.move(seconds)
        outcome = sender.handle(wanted)
        outcomes += [outcome] if outcome != "early" else []
        if outcome == "failed":
            waits.append((queue.asked[0][0].not_before_ms - sender.clock()) / 1000)

    assert tuple(waits) == LADDER_SECONDS
    assert outcomes == ["failed"] * 8 + ["given_up"]
    assert deliveries.read("ctr_demo01", "evt_0001").state is DeliveryState.GIVEN_UP
    assert set(sender.post.seen) == {"evt_0001"}


def test_no_wait_is_longer_than_a_queue_can_hold():
    sender, _, queue = a_sender()

    outcome = sender.handle(Try("ctr_demo01", "evt_0001", 5, sender.clock() + 3_600_000))

    assert outcome == "early"
    assert queue.asked == [(Try("ctr_demo01", "evt_0001", 5, START_MS + 3_600_000), 900)]
    assert sender.post.seen == []


def test_410_stops_every_webhook_of_the_contract():
    sender, deliveries, queue = a_sender(410)
    other = replace(DELIVERY, event_id="evt_0002")
    deliveries.put(other)

    outcomes = [sender.handle(Try("ctr_demo01", event)) for event in ("evt_0001", "evt_0002")]

    assert outcomes == ["stopped", "stopped"]
    assert sender.post.seen == ["evt_0001"]
    assert queue.asked == []


def test_a_try_that_was_made_is_not_made_again():
    sender, _, queue = a_sender(500, 200)

    first = sender.handle(Try("ctr_demo01", "evt_0001", 1))
    doubled = sender.handle(Try("ctr_demo01", "evt_0001", 1))

    assert (first, doubled) == ("failed", "stale")
    assert len(queue.asked) == 1


def test_a_crash_before_the_outcome_is_noted_repeats_the_try():
    sender, deliveries, queue = a_sender(500, 200)
    notes, deliveries.note = deliveries.note, lambda before, after: None  # the runner dies before this write
    sender.handle(Try("ctr_demo01", "evt_0001", 1))
    deliveries.note = notes

    again = sender.handle(Try("ctr_demo01", "evt_0001", 1))
    sender.clock.move(60)
    late = sender.handle(queue.take())

    assert again == "delivered"
    assert late == "stale"  # the second try was asked for, but is not needed any more


def test_announcing_twice_is_one_event():
    deliveries, queue = FakeDeliveries(), FakeQueue()
    announcer = Announcer(deliveries, queue)
    contract = replace(a_record(), webhook_url="https://seeker.example/h", webhook_secret=SECRET)

    for _ in range(2):
        announcer.announce(delivery_of(contract, FINAL, generation=1, occurred_at_ms=START_MS, poll_url="https://w/t"))

    assert len(deliveries.kept) == 1
    assert queue.asked[0] == queue.asked[1]


def test_a_contract_without_a_webhook_is_told_nothing():
    assert delivery_of(a_record(), FINAL, generation=1, occurred_at_ms=START_MS, poll_url="") is None


def test_another_terminal_state_is_another_event():
    ids = {event_id_of(TASK_ID, generation, status) for generation in (1, 2) for status in ("failed", "completed")}

    assert len(ids) == 4


def test_the_event_tells_what_the_task_answer_tells():
    contract = replace(a_record(), webhook_url="https://seeker.example/h")

    made = delivery_of(contract, FINAL, generation=1, occurred_at_ms=START_MS, poll_url="https://w/tasks/t")

    told = json.loads(made.body)
    assert FINAL.items() <= told.items()
    assert told["event"] == "task_completed"
    assert told["deliverables"] == []
    assert told["event_id"] == made.event_id
    assert told["poll_url"] == "https://w/tasks/t"


def test_a_long_event_goes_without_its_output():
    body = bounded({**FINAL, "output": {"type": "text", "content": "x" * BODY_BYTES}})

    told = json.loads(body)
    assert told["truncated"] is True
    assert "output" not in told
    assert told["status"] == "completed"


def test_even_the_longest_event_fits():
    huge = "x" * BODY_BYTES

    body = bounded({**FINAL, "output": huge, "error": huge, "deliverables": [huge]})

    assert len(body) <= BODY_BYTES
    assert json.loads(body)["deliverables"] == []


def test_a_message_holds_ids_only():
    message = message_of(Try("ctr_demo01", "evt_0001", 2, 5), OWNER)

    assert message == {"contract_id": "ctr_demo01", "event_id": "evt_0001", "attempt": 2, "not_before_ms": 5}
    assert try_of(message, OWNER) == Try("ctr_demo01", "evt_0001", 2, 5)


def test_a_strange_message_is_refused():
    with pytest.raises(BadRequest):
        try_of({"something": "else"}, OWNER)


def test_secrets_and_bodies_are_not_shown():
    assert "whsec" not in repr(DELIVERY)


def test_the_door_sends_under_its_own_name():
    with worker_function("webhook") as module:
        sender = module.door.sender

    assert (sender.user_agent, sender.owner) == ("hire-worker/1", "contract_id")
