"""One contract for records of operators, on the fake and on DynamoDB; and verbs on the embedded AWS's own queues."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.aws.queues import Queue
from piecework.errors import NotFound, Unavailable
from piecework.ops.listing import DAY_MS, SHARDS
from piecework.ops.records import Record
from piecework.ops.store.letters import KeptHooks, LettersQueue
from piecework.ops.store.record_rows import RecordRowsTable
from piecework.webhooks.deliveries import MOST_TRIES, Delivery, DeliveryState, Try
from piecework.webhooks.sending import Sender
from piecework.webhooks.store import work_deliveries
from tests.contract.ops.rows import KINDS, rows_of
from tests.support.fakes import START_MS, FakeClock
from tests.support.ops.verbs import FakeRecordRows

RECORD = Record("ab" * 16, START_MS, "ann", "webhook.resend", "ctr_1/evt_1", "why ü")


@pytest.fixture(params=KINDS)
def rows(request):
    return rows_of(request, FakeRecordRows, RecordRowsTable)


def standing(rows):
    found = [row for shard in SHARDS for row in rows.rows(START_MS // DAY_MS, shard, "", 8)]
    return list(rows.find(found))


def test_a_record_is_written_once_and_completed_once(rows):
    rows.put(RECORD, START_MS // 1000 + 9)
    assert standing(rows) == [RECORD]

    rows.complete(RECORD, {"put_back": 2})
    rows.complete(RECORD, {"put_back": 9})
    assert standing(rows) == [RECORD._replace(outcome={"put_back": 2})]


def test_two_records_of_one_id_are_not_taken_for_one(rows):
    rows.put(RECORD, START_MS // 1000 + 9)

    with pytest.raises(Unavailable):
        rows.put(RECORD._replace(by="bob"), START_MS // 1000 + 9)
    assert [record.by for record in standing(rows)] == ["ann"]


def test_records_stand_on_their_own_day_and_before_a_place(rows):
    rows.put(RECORD, START_MS // 1000 + 9)

    assert [row for shard in SHARDS for row in rows.rows(START_MS // DAY_MS - 1, shard, "", 8)] == []
    before = f"{START_MS % DAY_MS:08d}"
    assert [row for shard in SHARDS for row in rows.rows(START_MS // DAY_MS, shard, before, 8)] == []


def test_a_record_of_a_later_release_is_read_without_what_this_one_does_not_know(embedded_aws):
    client, name = embedded_aws.client("dynamodb"), embedded_aws.new_table()
    rows = RecordRowsTable(client, name)
    rows.put(RECORD, START_MS // 1000 + 9)
    [row] = client.scan(TableName=name)["Items"]
    written = {**json.loads(row["record"]["S"]), "since": "a later release"}
    client.put_item(TableName=name, Item={**row, "record": {"S": json.dumps(written)}})

    assert standing(rows) == [RECORD]


@pytest.fixture
def queues(embedded_aws):
    sqs = embedded_aws.client("sqs")
    urls = [sqs.create_queue(QueueName=f"{name}-{uuid4().hex}")["QueueUrl"] for name in ("live", "dead")]
    return sqs, *urls


def test_dead_letters_are_looked_at_put_back_and_gone(queues):
    sqs, live, dead = queues
    for number in range(3):
        sqs.send_message(QueueUrl=dead, MessageBody=json.dumps({"n": number}))
    letters = LettersQueue(lambda: sqs, live, dead)

    seen = {letter.body for _ in range(5) for letter in letters.take(10, hidden_seconds=0)}
    assert seen == {json.dumps({"n": number}) for number in range(3)}  # they stay
    while taken := letters.take(10, hidden_seconds=60):
        for letter in taken:
            assert letter.sent_at_ms > 0 and letter.receives > 0
            letters.put_back(letter)

    back = [
        m["Body"]
        for _ in range(3)
        for m in sqs.receive_message(QueueUrl=live, MaxNumberOfMessages=10).get("Messages", [])
    ]
    assert sorted(back) == sorted(seen)
    assert Queue(lambda: sqs, dead).depth() == (0, 0, 0)


def test_letters_are_asked_for_on_all_servers_of_the_queue():
    """Without a wait SQS asks some of its servers, and finds nothing although there are letters."""
    asked = []

    class Recording:
        def receive_message(self, **given):
            asked.append(given)
            return {}

    assert LettersQueue(Recording, "live", "dead").take(10, hidden_seconds=0) == []
    assert [given["WaitTimeSeconds"] for given in asked] == [1]


class Hooked:
    """Webhooks in DynamoDB, a sender with a scripted server, and what was asked for."""

    def __init__(self, aws):
        self.asked, self.status = [], 500
        self.deliveries = work_deliveries(aws.client("dynamodb"), aws.new_table("WorkTable"), FakeClock())
        self.deliveries.put(Delivery("ctr_1", "evt_1", "https://seeker.example/hook", b"{}"))
        self.hooks = KeptHooks(self.deliveries, self.ask)
        self.sender = Sender(self.deliveries, self.post, self.ask, FakeClock())

    def post(self, url, body, headers):
        if self.status is None:
            raise Unavailable("nobody answers")
        return self.status

    def ask(self, wanted, seconds):
        self.asked.append(wanted)

    @property
    def standing(self):
        found = self.deliveries.read("ctr_1", "evt_1")
        return found.state, found.attempt


@pytest.fixture
def hooked(embedded_aws):
    return Hooked(embedded_aws)


def test_a_webhook_that_was_given_up_is_tried_again_from_the_first_try_on(hooked):
    assert hooked.sender.handle(Try("ctr_1", "evt_1", 9)) == "given_up"

    assert hooked.hooks.resend("ctr_1", "evt_1") == "given_up"
    assert hooked.standing == (DeliveryState.PENDING, 1)
    hooked.status = 200
    assert hooked.sender.handle(hooked.asked[-1]) == "delivered"


def test_a_delivered_webhook_is_sent_again_and_a_pending_one_at_its_own_try(hooked):
    assert hooked.sender.handle(Try("ctr_1", "evt_1")) == "failed"
    assert hooked.hooks.resend("ctr_1", "evt_1") == "pending"
    assert hooked.asked[-1] == Try("ctr_1", "evt_1", 2) and hooked.standing == (DeliveryState.PENDING, 2)

    hooked.status = 200
    hooked.sender.handle(hooked.asked[-1])
    assert hooked.hooks.resend("ctr_1", "evt_1") == "delivered"
    assert hooked.sender.handle(hooked.asked[-1]) == "delivered"


def test_a_seeker_who_said_stop_is_left_alone(hooked):
    hooked.status = 410
    hooked.sender.handle(Try("ctr_1", "evt_1"))

    hooked.deliveries.put(
        Delivery("ctr_1", "evt_2", "https://seeker.example/hook", b"{}", state=DeliveryState.GIVEN_UP)
    )

    assert [hooked.hooks.resend("ctr_1", event_id) for event_id in ("evt_1", "evt_2")] == ["stopped", "stopped"]
    assert hooked.asked == [] and hooked.standing[0] is DeliveryState.STOPPED
    assert hooked.deliveries.read("ctr_1", "evt_2").state is DeliveryState.GIVEN_UP


def test_a_webhook_that_is_not_kept_is_not_found(hooked):
    hooked.deliveries.stop("ctr_1")
    for event_id in ("evt_9", "STOP"):
        with pytest.raises(NotFound):
            hooked.hooks.resend("ctr_1", event_id)


def test_a_delivery_that_moved_meanwhile_is_not_restarted(hooked):
    before = hooked.deliveries.read("ctr_1", "evt_1")
    hooked.sender.handle(Try("ctr_1", "evt_1"))

    with pytest.raises(Unavailable):
        hooked.deliveries.restart(before)
    assert hooked.standing == (DeliveryState.PENDING, 2)


def test_every_try_is_kept_with_its_status_and_time_through_a_restart(hooked):
    for status in (500, None, 200):
        hooked.status = status
        hooked.sender.handle(hooked.asked[-1] if hooked.asked else Try("ctr_1", "evt_1"))
        hooked.asked = [replace(one, not_before_ms=0) for one in hooked.asked]
    hooked.hooks.resend("ctr_1", "evt_1")
    hooked.sender.handle(hooked.asked[-1])

    found = hooked.deliveries.read("ctr_1", "evt_1")
    tries = [(made.attempt, made.status) for made in found.tries]
    assert tries == [(1, 500), (2, None), (3, 200), (1, 200)]
    assert {made.at_ms for made in found.tries} == {START_MS}


def test_a_try_of_a_later_release_is_read_without_what_this_one_does_not_know(hooked):
    hooked.sender.handle(Try("ctr_1", "evt_1"))
    client, table = hooked.deliveries._table._client, hooked.deliveries._table.name
    [row] = client.scan(TableName=table)["Items"]
    longer = [[*made, "since a later release"] for made in json.loads(row["tries"]["S"])]
    client.put_item(TableName=table, Item={**row, "tries": {"S": json.dumps(longer)}})

    [made] = hooked.deliveries.read("ctr_1", "evt_1").tries
    assert (made.attempt, made.status, made.at_ms) == (1, 500, START_MS)


def test_no_more_tries_are_kept_than_are_shown():
    delivery = Delivery("ctr_1", "evt_1", "https://seeker.example/", b"{}")
    for number in range(MOST_TRIES + 5):
        delivery = delivery.tried(number, 500, START_MS)

    assert [made.attempt for made in delivery.tries] == [*range(5, MOST_TRIES + 5)]
