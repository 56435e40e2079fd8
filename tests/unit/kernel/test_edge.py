"""What the kernel door's HTTP application does around its routes."""

import json
import logging

import pytest

from kernel.http.api import ROUTES
from kernel.http.edge import Line
from kernel.http.runners import MOST_TOOLS
from local.openapi import kernel
from piecework.kernel.model.ports.executions import Summaries, Summary
from piecework.kernel.model.state import Status
from piecework.kernel.wire.cursors import enough, page_of
from tests.support.kernel.desk import Desk
from tests.support.kernel.mangum_calls import through_mangum
from tests.unit.kernel.test_events import an_event

FUNCTION_ANSWER = 6_291_556  # bytes, as base64


def test_a_bug_is_logged_and_answered_without_its_text(monkeypatch):
    bugs: list[str] = []
    desk = Desk(bug=bugs.append)
    monkeypatch.setattr(type(desk.stage.store.runners), "directory", lambda _self, _prefix: 1 / 0)

    answer = desk.get("/v0/tools")

    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error", "code": "INTERNAL_ERROR", "details": None}
    assert answer.headers["x-request-id"]
    assert bugs == ["kernel"]


def test_a_bug_is_answered_the_same_through_mangum(monkeypatch, caplog):
    desk = Desk()
    monkeypatch.setattr(type(desk.stage.store.runners), "directory", lambda _self, _prefix: 1 / 0)
    with caplog.at_level(logging.CRITICAL):
        answer = through_mangum(desk.app.__call__, an_event(path="/v0/tools"))

    assert answer["statusCode"] == 500
    assert json.loads(answer["body"])["code"] == "INTERNAL_ERROR"


@pytest.mark.parametrize(("most", "status"), [(MOST_TOOLS, 200), (MOST_TOOLS + 1, 400)])
def test_a_runner_has_a_bounded_number_of_tools(most, status):
    tools = [f"t.{number}" for number in range(most)]

    assert Desk().post("/v0/runners/geo-1/capabilities", {"tools": tools}).status_code == status


def test_a_runner_publishes_a_bounded_number_of_tools():
    desk = Desk()
    tools = [{"id": f"t.{number}"} for number in range(MOST_TOOLS + 1)]

    refused = desk.post("/v0/runners/geo-1/tools", {"tools": tools})
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert desk.post("/v0/runners/geo-1/tools", {"tools": tools[1:]}).status_code == 204


def test_every_route_is_in_the_published_document_with_its_request_and_refusals():
    paths = kernel.document()["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]

    served = {(route.path, method.lower()) for route in ROUTES for method in route.methods}
    streams = {(path, "get") for path in kernel.STREAMS}

    assert {(path, method) for path, methods in paths.items() for method in methods} == served | streams
    assert kernel.document()["paths"] == paths
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    created = paths["/v0/executions"]["post"]
    assert created["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/CreateBody")
    assert {"201", "400", "401", "429", "500", "503"} <= set(created["responses"])
    assert "401" not in paths["/v0/health"]["get"]["responses"]
    assert list(paths["/v0/agents/stream"]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]


def test_a_page_of_the_log_holds_a_hundred_events_unless_it_is_asked_for_up_to_a_thousand(monkeypatch):
    desk, asked = Desk(), []
    monkeypatch.setattr(desk.stage.kernel, "events", lambda _id, after, limit: asked.append((after, limit)) or [])

    for query in ({}, {"limit": "0"}, {"limit": "abc"}, {"limit": "-3"}, {"limit": "1001"}, {"after_sequence": "junk"}):
        assert desk.get("/v0/executions/x/events", **query).json() == {"events": [], "latest_sequence": 0}
    desk.get("/v0/executions/x/events", after_sequence="7", limit="5")

    assert asked == [(0, 100), (0, 100), (0, 100), (0, 100), (0, 1000), (0, 100), (7, 5)]


def test_lists_of_long_labels_are_cut_and_lose_none():
    desk = Desk()
    made = []
    for _ in range(9):
        made.append(desk.create(labels={"note": "ü" * 500_000}))
        desk.stage.clock.move(1)
    pages, cursor = [], ""
    while True:
        answer = desk.get("/v0/executions", cursor=cursor)
        assert len(answer.content) * 4 / 3 < FUNCTION_ANSWER
        pages.append([row["id"] for row in answer.json()["executions"]])
        cursor = answer.json()["next_cursor"]
        if not cursor:
            break

    assert [len(page) for page in pages] == [3, 3, 3]
    assert [one for page in pages for one in page] == made[::-1]


def test_rows_with_long_labels_are_not_read_beyond_a_page():
    read: list[int] = []

    def rows():
        for number in range(100):
            read.append(number)
            yield Summary(str(number), Status.PENDING, "triage", {"note": "x" * 1_000_000}, number, number)

    assert len(list(enough(rows()))) == len(read) == 4
    assert [row.id for row in page_of(Summaries(list(enough(rows())), None), 50)[0]] == ["0", "1", "2"]


@pytest.mark.parametrize("text", ["中" * 349_000, '"' * 523_000, "\\" * 523_000])
def test_the_longest_execution_fits_a_functions_answer(text):
    desk = Desk()
    work = desk.work(input=text)
    assert work.intend("complete", output=text).json() == {"accepted": True}

    shown = desk.get(f"/v0/executions/{work.id}")

    assert (shown.json()["input"], shown.json()["output"]) == (text, text)
    assert len(shown.content) * 4 / 3 < FUNCTION_ANSWER


def test_half_a_surrogate_pair_in_an_answer_is_escaped():
    assert Line({"output": "\ud800"}).body == b'{"output":"\\ud800"}\n'


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"agent_id":"a"}\xff', 201),
        (b'{"agent_id":"\xff"}', 400),
        (b'{"agent_id":"a","zzz":"\xff"}', 400),
        (b"\xff", 400),
    ],
)
def test_only_what_follows_the_first_value_may_be_no_text(body, status):
    assert Desk().client.post("/v0/executions", content=body).status_code == status
