"""Webhooks about approvals at the operator's door: lists and filters."""

import json

import pytest

from piecework.ops.kernel.webhooks import LOOKS, PAGE_MOST
from piecework.ops.kernel_routes import KERNEL
from piecework.webhooks.deliveries import Delivery, DeliveryState
from tests.support.ops.kernel import KernelOps

LIST = f"{KERNEL}/webhooks"
EVENT = "a" * 32
LONG = {"execution_id": "\N{GRINNING FACE}" * 65}  # over 256 bytes
GIVEN_UP = DeliveryState.GIVEN_UP


@pytest.fixture
def ops():
    return KernelOps()


def keep(ops, execution_id="ex_1", event_id=EVENT, **members):
    body = json.dumps({"notice": "needed", "step_id": "st_1"}).encode()
    ops.hooks.put(Delivery(execution_id, event_id, "", body, name="desk", **members))


def many(ops, count, of_which=0):
    """Webhooks a second apart; every `of_which`th was given up."""
    for number in range(count):
        ops.desk.stage.clock.move(1)
        state = GIVEN_UP if of_which and number % of_which == 0 else DeliveryState.DELIVERED
        keep(ops, event_id=f"{number:032x}", state=state)


def walked(ops, **query):
    found, cursor = [], ""
    while cursor is not None:
        page = ops.get(LIST, cursor=cursor, **query)
        found, cursor = found + [int(item["event_id"], 16) for item in page["items"]], page["next"]
    return found


def test_one_is_shown_with_what_it_is_about_and_its_tries(ops):
    keep(ops, state=GIVEN_UP, attempt=9)
    kept = ops.hooks.kept["ex_1", EVENT]
    ops.hooks.kept["ex_1", EVENT] = kept.tried(9, 503, 5)

    [item] = ops.get(LIST)["items"]
    assert item == {
        "execution_id": "ex_1", "event_id": EVENT, "name": "desk", "notice": "needed", "step_id": "st_1",
        "at_ms": ops.desk.stage.clock(), "state": "given_up", "attempt": 9,
        "tries": [{"attempt": 9, "status": 503, "at_ms": 5}],
    }  # fmt: skip


def test_pages_lead_through_all_of_them_once_whatever_is_asked_for(ops):
    many(ops, 60, of_which=7)

    assert walked(ops, limit="7") == list(range(59, -1, -1))
    assert walked(ops, state="given_up", limit="4") == [number for number in range(59, -1, -1) if number % 7 == 0]


def test_a_page_goes_on_past_webhooks_that_are_gone(ops):
    many(ops, 9)
    for number in (8, 6, 5, 4, 3):
        ops.hooks.lose("ex_1", f"{number:032x}")

    assert walked(ops, limit="3") == walked(ops, limit="2") == [7, 2, 1, 0]


def test_a_page_reads_a_bounded_number_of_pages_though_none_of_them_fits(ops):
    many(ops, (LOOKS + 1) * PAGE_MOST)
    newest, asked = ops.hooks.newest, []
    ops.hooks.newest = lambda before, limit: asked.append(limit) or newest(before, limit)

    page = ops.get(LIST, state="stopped", limit=str(PAGE_MOST))
    assert page["items"] == [] and page["next"] and asked == [PAGE_MOST] * LOOKS


def test_those_of_one_execution_are_listed_by_themselves(ops):
    keep(ops)
    keep(ops, "ex_2", "b" * 32, state=GIVEN_UP)

    assert [item["execution_id"] for item in ops.get(LIST, execution_id="ex_2")["items"]] == ["ex_2"]
    assert ops.get(LIST, execution_id="ex_2", state="pending") == {"items": [], "next": None}
    assert ops.get(LIST, execution_id="nobody")["items"] == []


def test_none_of_one_executions_are_left_out_however_many_there_are(ops):
    many(ops, 2 * PAGE_MOST + 3, of_which=PAGE_MOST)
    keep(ops, "ex_2", "b" * 32)

    assert walked(ops, execution_id="ex_1") == list(range(2 * PAGE_MOST + 3))
    assert walked(ops, execution_id="ex_1", state="given_up") == [0, PAGE_MOST, 2 * PAGE_MOST]


@pytest.mark.parametrize(
    "query",
    [{"state": "lost"}, {"limit": "0"}, {"limit": "51"}, {"limit": "x"}, {"cursor": "x"}, {"url": "https://a"}, LONG],
)
def test_a_parameter_without_meaning_is_refused(ops, query):
    assert ops.ask("viewer", "GET", LIST, **query).status == 400
