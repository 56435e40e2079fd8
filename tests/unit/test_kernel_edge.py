"""What the kernel door's HTTP application does around its routes."""

import json
import logging

import pytest

from kernel.runners import MOST_TOOLS
from local.openapi import kernel
from tests.support.kernel_desk import Desk
from tests.support.mangum_calls import through_mangum
from tests.unit.test_kernel_events import an_event


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

    assert len(operations) == len(kernel.OPERATIONS) + len(kernel.STREAMS)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    created = paths["/v0/executions"]["post"]
    assert created["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/CreateBody")
    assert {"201", "400", "401", "429", "500", "503"} <= set(created["responses"])
    assert "401" not in paths["/v0/health"]["get"]["responses"]
    assert list(paths["/v0/agents/stream"]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
