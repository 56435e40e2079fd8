"""Webhooks about approvals are listed by time with their tries, in the kernel's table and in memory."""

import json
from dataclasses import replace

import pytest

from piecework.aws.table import THE_KERNEL, Table
from piecework.errors import NotFound
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.store.keys import BY_AGE
from piecework.ops.store.kernel_webhooks import KernelHookRowsTable
from piecework.ops.store.letters import KeptHooks
from piecework.webhooks.deliveries import KEPT_SECONDS, Delivery, DeliveryState, Try
from piecework.webhooks.store import LISTED, kernel_deliveries
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.tables import new_tables
from tests.support.ops.hooks import FakeKernelHooks
from tests.support.worker.hooks import FakeQueue


class Lagging:
    """DynamoDB whose index still names rows that have just gone."""

    def __init__(self, client):
        self._client, self.gone = client, []

    def __getattr__(self, name):
        return getattr(self._client, name)

    def query(self, **asked):
        answer = self._client.query(**asked)
        for gone in self.gone:
            gone()
        return answer


class Place:
    """Webhooks, their list, and how a row is lost that the list still names."""

    def __init__(self, deliveries, rows, clock, lose):
        self.deliveries, self.rows, self.clock = deliveries, rows, clock
        self.lose = lambda execution_id, number: lose(execution_id, f"{number:032x}")

    def keep(self, execution_id, number=1, **members):
        """A webhook that is handed over now, a second after the one before."""
        self.clock.move(1)
        body = json.dumps({"notice": "needed", "step_id": f"st_{number}", "tool_id": "pay.refund"}).encode()
        kept = Delivery(execution_id, f"{number:032x}", "", body, name="desk", **members)
        self.deliveries.put(kept)
        return kept


@pytest.fixture(params=["fake", "dynamodb"])
def place(request):
    clock = FakeClock()
    if request.param == "fake":
        hooks = FakeKernelHooks(clock)
        return Place(hooks, hooks, clock, hooks.lose)
    store = new_tables(request.getfixturevalue("embedded_aws"), clock)
    deliveries = kernel_deliveries(store.client, store.table, clock)
    client, table = Lagging(store.client), Table(store.client, store.table, THE_KERNEL)

    def lose(execution_id, event_id):
        client.gone.append(lambda: table.delete((f"WEBHOOK#{execution_id}", event_id)))

    return Place(deliveries, KernelHookRowsTable(client, store.table, clock), clock, lose)


def test_webhooks_are_listed_by_time_the_newest_first_and_page_after_page(place):
    for number in (1, 2, 3):
        place.keep(f"ex_{4 - number}", number)

    first = place.rows.newest("", 2)
    rest = place.rows.newest(first.then, 2)
    heads = (*first.heads, *rest.heads)
    assert [head.event_id[-1] for head in heads] == ["3", "2", "1"]
    assert [head.at_ms - START_MS for head in heads] == [3_000, 2_000, 1_000]
    assert (first.then, rest.then) == (heads[1].key, "")
    assert place.rows.newest(heads[-1].key, 2) == ([], "")


def test_a_page_whose_rows_are_partly_gone_leads_on_to_older_ones(place):
    for number in (1, 2, 3, 4):
        place.keep("ex_1", number)

    place.lose("ex_1", 3)  # the list still has it
    first = place.rows.newest("", 2)
    assert [head.event_id[-1] for head in first.heads] == ["4"]
    rest = place.rows.newest(first.then, 9)
    assert [head.event_id[-1] for head in rest.heads] == ["2", "1"] and rest.then == ""


def test_a_page_whose_rows_are_all_gone_leads_on_to_older_ones(place):
    for number in (1, 2):
        place.keep("ex_1", number)

    place.lose("ex_1", 2)
    first = place.rows.newest("", 1)
    assert first.heads == [] and [head.event_id[-1] for head in place.rows.newest(first.then, 1).heads] == ["1"]


def test_a_webhook_is_shown_with_its_tries_and_without_what_it_tells_or_where_it_goes(place):
    kept = place.keep("ex_1")
    tried = kept.tried(1, 500, 7)
    place.deliveries.note(kept, replace(tried, attempt=2))
    after = replace(tried, attempt=2).tried(2, None, 9)
    place.deliveries.note(replace(tried, attempt=2), replace(after, state=DeliveryState.GIVEN_UP))

    [head] = place.rows.newest("", 9).heads
    assert (head.execution_id, head.step_id, head.notice, head.name) == ("ex_1", "st_1", "needed", "desk")
    assert (head.state, head.attempt) == ("given_up", 2)
    assert [tuple(made) for made in head.tries] == [(1, 500, 7), (2, None, 9)]
    assert "pay.refund" not in str(head)


def test_the_webhooks_of_one_execution_are_found_though_somebody_wants_no_more_of_them(place):
    for number in (2, 1):
        place.keep("ex_1", number)
    place.keep("ex_2", 3)
    place.deliveries.stop("ex_1")

    assert [head.event_id[-1] for head in place.rows.of_execution("ex_1", "", 9).heads] == ["1", "2"]
    assert len(place.rows.of_execution("ex_1", "", 1).heads) == 1
    assert place.rows.of_execution("ex_3", "", 9) == ([], "")


def test_the_webhooks_of_one_execution_come_in_pages(place):
    for number in (3, 1, 2, 4):
        place.keep("ex_1", number)
    place.deliveries.stop("ex_1")

    first = place.rows.of_execution("ex_1", "", 2)
    second = place.rows.of_execution("ex_1", first.then, 2)
    assert [head.event_id[-1] for head in (*first.heads, *second.heads)] == ["1", "2", "3", "4"]
    assert (first.then, second.then) == (first.heads[-1].event_id, "")


def test_a_webhook_that_is_handed_over_again_stays_in_its_place(place):
    place.keep("ex_1")
    place.clock.move(60)
    place.keep("ex_1")

    assert [head.at_ms - START_MS for head in place.rows.newest("", 9).heads] == [1_000]


def test_one_that_was_given_up_is_tried_again_from_the_first_and_keeps_its_place(place):
    queue = FakeQueue()
    place.keep("ex_1", state=DeliveryState.GIVEN_UP, attempt=9)
    place.keep("ex_2", 2)

    hooks = KeptHooks(place.deliveries, queue)
    assert (hooks.resend("ex_1", f"{1:032x}"), queue.take()) == ("given_up", Try("ex_1", f"{1:032x}", 1))
    assert [(head.execution_id, head.state, head.attempt) for head in place.rows.newest("", 9).heads] == [
        ("ex_2", "pending", 1),
        ("ex_1", "pending", 1),
    ]
    place.deliveries.stop("ex_2")
    assert hooks.resend("ex_2", f"{2:032x}") == "stopped" and queue.asked == []
    with pytest.raises(NotFound):
        hooks.resend("ex_1", "STOP")


def test_what_is_past_its_time_is_not_listed_although_the_table_still_has_it(embedded_aws):
    clock = FakeClock()
    store = new_tables(embedded_aws, clock)
    rows = KernelHookRowsTable(store.client, store.table, clock)
    place = Place(kernel_deliveries(store.client, store.table, clock), rows, clock, None)
    place.keep("ex_1")
    clock.move(KEPT_SECONDS - 1)
    assert len(rows.newest("", 9).heads) == len(rows.of_execution("ex_1", "", 9).heads) == 1
    kept = place.keep("ex_1", 2)

    assert [head.event_id for head in rows.newest("", 9).heads] == [kept.event_id]
    assert rows.of_execution("ex_1", "", 1) == (rows.newest("", 9).heads, "")


def test_what_earlier_code_kept_is_with_its_execution(embedded_aws):
    store = new_tables(embedded_aws, FakeClock())
    deliveries = kernel_deliveries(store.client, store.table, FakeClock())
    deliveries._is_listed = False
    deliveries.put(Delivery("ex_1", "a" * 32, "", b"no JSON", name="desk"))
    rows = KernelHookRowsTable(store.client, store.table, FakeClock())

    assert rows.newest("", 9) == ([], "")
    [head] = rows.of_execution("ex_1", "", 9).heads
    assert (head.at_ms, head.notice, head.key) == (None, "", "")


def test_webhooks_are_in_no_list_of_executions(embedded_aws):
    store = new_tables(embedded_aws, FakeClock())
    kernel_deliveries(store.client, store.table, FakeClock()).put(Delivery("ex_1", "a" * 32, "", b"{}", name="desk"))

    assert BY_AGE.pk == "age_shard" and not LISTED.isdecimal()
    assert store.executions.rows(Filter(), None, 9).rows == []
