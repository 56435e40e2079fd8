"""One contract for webhook deliveries and stream events, held against the fakes and against DynamoDB."""

import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from piecework.webhooks.deliveries import KEPT_SECONDS, Delivery, DeliveryState
from piecework.webhooks.store import kernel_deliveries, work_deliveries
from piecework.worker.store.stream_table import StreamTable
from piecework.worker.stream.streams import Event
from tests.support.fakes import START_MS, FakeClock
from tests.support.lost_answers import LostAnswers
from tests.support.worker.hooks import FakeDeliveries
from tests.support.worker.streams import FakeSeats, FakeStreamLog


@pytest.fixture(scope="module", params=["fake", "dynamodb", "lost answers"])
def kind(request):
    return request.param


def client_of(kind: str, aws):
    """A client of DynamoDB: plain, or one that repeats every write."""
    client = aws.client("dynamodb")
    return LostAnswers(client) if kind == "lost answers" else client


@pytest.fixture(scope="module")
def deliveries(kind, door_deliveries, request):
    if kind == "fake":
        return FakeDeliveries()
    aws = request.getfixturevalue("embedded_aws")
    return door_deliveries[0](client_of(kind, aws), aws.new_table(door_deliveries[1]))


@pytest.fixture(scope="module", params=[(work_deliveries, "WorkTable"), (kernel_deliveries, "KernelTable")])
def door_deliveries(request):
    return request.param


@pytest.fixture(scope="module")
def log(kind, request):
    if kind == "fake":
        return FakeStreamLog()
    aws = request.getfixturevalue("embedded_aws")
    return StreamTable(client_of(kind, aws), aws.new_table("WorkTable"))


@pytest.fixture
def delivery():
    return Delivery(f"ctr_{uuid4().hex}", "evt_1", "https://seeker.example/h", b'{"a":1}', "whsec_x")


@pytest.fixture
def stream():
    return f"{uuid4().hex}/1"


class TestDeliveries:
    def test_what_is_kept_is_read_back(self, deliveries, delivery):
        deliveries.put(delivery)

        assert deliveries.read(delivery.owner_id, "evt_1") == delivery
        assert deliveries.read(delivery.owner_id, "evt_2") is None

    def test_a_delivery_without_a_secret_is_read_back(self, deliveries, delivery):
        deliveries.put(replace(delivery, secret=None))

        assert deliveries.read(delivery.owner_id, "evt_1").secret is None

    def test_a_delivery_to_a_name_is_read_back(self, deliveries, delivery):
        deliveries.put(replace(delivery, url="", secret=None, name="desk"))

        assert deliveries.read(delivery.owner_id, "evt_1").name == "desk"

    def test_putting_again_changes_nothing(self, deliveries, delivery):
        deliveries.put(delivery)
        deliveries.note(delivery, replace(delivery, attempt=2))

        deliveries.put(delivery)

        assert deliveries.read(delivery.owner_id, "evt_1").attempt == 2

    def test_a_slower_try_notes_nothing(self, deliveries, delivery):
        deliveries.put(delivery)
        deliveries.note(delivery, replace(delivery, state=DeliveryState.DELIVERED))

        deliveries.note(delivery, replace(delivery, attempt=2))

        standing = deliveries.read(delivery.owner_id, "evt_1")
        assert (standing.state, standing.attempt) == (DeliveryState.DELIVERED, 1)

    def test_a_stopped_contract_stays_stopped(self, deliveries, delivery):
        assert not deliveries.is_stopped(delivery.owner_id)

        deliveries.stop(delivery.owner_id)
        deliveries.stop(delivery.owner_id)

        assert deliveries.is_stopped(delivery.owner_id)


def test_a_delivery_past_its_time_is_not_read_and_one_that_begins_again_is_kept_as_long_as_a_new_one(
    embedded_aws, door_deliveries, delivery
):
    made, table = door_deliveries
    clock = FakeClock(START_MS)
    kept = made(embedded_aws.client("dynamodb"), embedded_aws.new_table(table), clock)
    kept.put(delivery)
    kept.note(delivery, ended := replace(delivery, state=DeliveryState.GIVEN_UP))
    clock.move(KEPT_SECONDS - 1)
    assert kept.read(delivery.owner_id, "evt_1") == ended

    kept.restart(ended)
    clock.move(KEPT_SECONDS - 1)
    assert kept.read(delivery.owner_id, "evt_1").state is DeliveryState.PENDING

    clock.move(1)
    assert kept.read(delivery.owner_id, "evt_1") is None


class TestStreamLog:
    def test_events_come_back_in_order(self, log, stream):
        events = [Event(seq, "progress", {"pct": seq / 2, "message": "é"}) for seq in range(1, 13)]

        for event in reversed(events):
            assert log.append(stream, event, START_MS // 1000)

        assert log.read(stream) == events

    def test_a_number_is_given_once(self, log, stream):
        won = []

        def append(pct):
            if log.append(stream, Event(1, "progress", {"pct": pct}), START_MS // 1000):
                won.append(pct)

        threads = [threading.Thread(target=append, args=[pct]) for pct in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [event.data["pct"] for event in log.read(stream)] == won
        assert len(won) == 1

    def test_streams_are_apart(self, log, stream):
        log.append(stream, Event(1, "end", {}), START_MS // 1000)

        assert log.read(f"{stream}0") == []


@pytest.fixture(scope="module")
def seats(kind, request):
    if kind == "fake":
        return FakeSeats()
    from piecework.worker.store.reader_table import ReaderTable

    aws = request.getfixturevalue("embedded_aws")
    return ReaderTable(client_of(kind, aws), aws.new_table("WorkTable"))


NOW_S = START_MS // 1000


class TestSeats:
    @pytest.fixture
    def seat(self):
        from piecework.worker.stream.readers import Seat

        return Seat(f"ctr_{uuid4().hex}", 3, "mine", NOW_S + 60)

    def test_a_seat_is_held_by_one_reader(self, seats, seat):
        assert seats.take(seat, NOW_S) and seats.taken(seat.scope) == {3: NOW_S + 60}

        assert not seats.take(replace(seat, token="another"), NOW_S + 59)
        assert seats.take(replace(seat, number=4, token="another"), NOW_S)

    def test_a_seat_that_was_given_back_is_free(self, seats, seat):
        seats.take(seat, NOW_S)
        seats.leave(replace(seat, token="another"))
        assert not seats.take(replace(seat, token="another"), NOW_S)

        seats.leave(seat)

        assert seats.take(replace(seat, token="another"), NOW_S)

    def test_a_seat_whose_reader_is_gone_is_free_when_its_time_is_over(self, seats, seat):
        seats.take(seat, NOW_S)

        assert seats.take(replace(seat, token="another", until_s=NOW_S + 120), NOW_S + 60)
        seats.leave(seat)
        assert seats.taken(seat.scope) == {3: NOW_S + 120}

    def test_readers_that_come_at_once_get_as_many_seats_as_there_are(self, seats, seat):
        from piecework.worker.errors import WorkerError
        from piecework.worker.stream.readers import Readers

        readers, let_in, refused = Readers(seats, lambda: START_MS, 60, per_contract=4, per_door=1_000), [], []

        def come():
            try:
                let_in.append(readers.enter(seat.scope))
            except WorkerError as error:
                refused.append(error.code)

        threads = [threading.Thread(target=come) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(let_in) <= 4 and len(let_in) + len(refused) == 12 and set(refused) <= {"RATE_LIMITED"}
        assert len({held[0].number for held in let_in}) == len(let_in) >= 1
        for held in let_in:
            readers.leave(held)
        assert len(readers.enter(seat.scope)) == 2
