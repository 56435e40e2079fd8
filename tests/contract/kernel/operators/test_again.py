"""An execution once more, over both stores: long inputs, two requests at once, rows of earlier code, requests."""

import threading

import pytest

from piecework.kernel.errors import Conflict, NotFound
from tests.contract.kernel.test_requests import Counting
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

BIG = {"text": "x" * 400_000}  # more than an item holds


@pytest.fixture(params=["memory", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    store = None if request.param == "memory" else new_tables(request.getfixturevalue("embedded_aws"), clock)
    return KernelStage(store=store, clock=clock)


def ended(stage, given=None) -> str:
    execution = stage.create(given)
    stage.cancel(execution)
    return execution


def test_an_input_that_no_row_holds_comes_along_and_outlives_the_first(stage):
    first = ended(stage, BIG)

    second = stage.kernel.again(first).execution.id
    stage.store.executions.forget(first)

    shown = stage.kernel.get(second)
    assert (shown.input, shown.again_of) == (BIG, first)
    with pytest.raises(NotFound):
        stage.kernel.again(first)


def test_two_creates_with_one_key_at_once_make_one_execution(stage):
    starts, made = threading.Barrier(2), []

    def create():
        starts.wait()
        made.append(stage.kernel.create("desk", BIG, {"a": "b"}, "ops:ann", "k").execution.id)

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 2 and len(set(made)) == 1
    assert stage.kernel.create("desk", BIG, {"a": "b"}, "ops:ann", "k").execution.id == made[0]
    with pytest.raises(Conflict, match="this key"):
        stage.kernel.create("desk", BIG, {}, "ops:ann", "k")
    assert stage.kernel.get(made[0]).input == BIG


def test_an_execution_whose_time_is_up_has_ended_though_nobody_has_looked(stage):
    first = stage.create({"n": 1})
    with pytest.raises(Conflict):
        stage.kernel.again(first)

    stage.clock.move(stage.settings.execution_timeout_ms / 1000)

    assert stage.kernel.again(first).again_of == first


def test_the_link_survives_what_follows(stage):
    first = ended(stage)
    second = stage.kernel.again(first).execution.id
    agent = stage.agent()
    session = agent.take("execution.assigned")
    stage.intend(session, "complete")

    third = stage.kernel.again(second)

    assert stage.kernel.get(second).again_of == first
    assert third.again_of == second


def test_two_requests_with_one_key_at_once_make_one_execution(stage):
    first, made = ended(stage), []
    starts = threading.Barrier(2)
    view = stage.store.executions.view

    def ask() -> None:
        starts.wait(10)
        made.append(stage.kernel.again(first, "click").execution.id)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(made) == 2 and len(set(made)) == 1
    assert view(made[0]).again_of == first


def test_the_slower_of_two_requests_with_one_key_gets_the_execution_of_the_faster(stage):
    first = ended(stage)
    other = stage.copy()
    choose = stage.door.assigner.choose
    done = []

    def slow(agent_id):
        if not done:
            done.append(other.kernel.again(first, "click"))
        return choose(agent_id)

    stage.door.assigner.choose = slow

    late = stage.kernel.again(first, "click")

    assert late == done[0]
    assert stage.types(late.execution.id) == ["execution.created"]


def test_to_run_an_execution_again_costs_one_read_more_than_to_create_it(embedded_aws):
    client, clock = Counting(embedded_aws.client("dynamodb")), FakeClock(START_MS)
    stage = KernelStage(store=new_tables(embedded_aws, clock, client=client), clock=clock)
    client.sent.clear()
    first = stage.create()
    create = dict(client.sent)
    stage.cancel(first)

    client.sent.clear()
    stage.kernel.again(first)
    plain = dict(client.sent)
    client.sent.clear()
    stage.kernel.again(first, "click")
    keyed = dict(client.sent)

    assert plain == create | {"batch_get_item": 1}
    assert keyed == create | {"batch_get_item": 2}


def test_the_log_of_an_execution_that_is_run_again_names_who_asked_for_it(stage):
    second = stage.kernel.again(ended(stage), by="mia").execution.id

    assert [event.by for event in stage.store.executions.events(second, 0, 10)] == ["mia"]
