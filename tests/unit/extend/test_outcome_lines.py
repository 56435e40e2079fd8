"""What an operator finds in the log: one line for each outcome, with the ids to search for and no credential."""

import pytest

from piecework.errors import PieceworkError
from piecework.extend.executors import Refused
from tests.support.kernel.desk import Desk
from tests.support.runtime.flows import FlowBench, answering

IDS = {"task_id", "execution_id", "attempt_id"}


def failing(task, run):
    raise Refused("no")


def facts_of(bench: FlowBench, **body) -> dict:
    try:
        return dict(bench.execute(**body).facts)
    except PieceworkError as error:
        return dict(error.facts)


@pytest.mark.parametrize(
    ("work", "body"),
    [
        (answering(), {}),
        (failing, {}),
        (answering(), {"profile": "unknown"}),
        (answering(), {"inputs": 5}),
        (answering(), {"contract": {"output_schema": {"type": "nothing"}}}),
    ],
)
def test_each_outcome_of_execute_names_task_execution_and_attempt(work, body):
    bench = FlowBench(work)
    sent = bench.body(**body)

    for _ in range(2):  # the answer, and its replay or repeat
        assert {name: value for name, value in facts_of(bench, **body).items() if name in IDS} == {
            name: sent[name] for name in IDS
        }


@pytest.fixture
def told():
    """A kernel door, and its outcome lines."""
    lines: list[dict] = []
    desk = Desk(outcome=lambda name, facts, counts: lines.append({"line": name, **facts}))
    return desk, lines


def test_each_command_at_the_kernel_door_leaves_a_line_with_its_ids(told):
    desk, lines = told

    execution_id = desk.create()
    desk.post(f"/v0/executions/{execution_id}/signal", {"signal_type": "go"})
    desk.post(
        "/v0/agents/step-result", {"execution_id": execution_id, "session_id": "s", "step_id": "x", "success": True}
    )
    desk.post("/v0/runners/r1/results", {"execution_id": execution_id, "step_id": "x", "success": True})

    assert [(line["route"], line["status"], line["execution_id"]) for line in lines] == [
        ("POST /v0/executions", 201, execution_id),
        ("POST /v0/executions/{execution_id}/signal", 200, execution_id),
        ("POST /v0/agents/step-result", lines[2]["status"], execution_id),
        ("POST /v0/runners/{runner_id}/results", lines[3]["status"], execution_id),
    ]
    assert lines[2]["step_id"] == "x" and lines[3]["runner_id"] == "r1"
    assert all(line["line"] == "kernel" and line["request_id"] for line in lines)


def test_a_line_has_no_credential_and_no_body(told):
    desk, lines = told

    desk.create(input={"secret": "in-the-body"})
    desk.post("/v0/agents/step-result", {"execution_id": "e", "session_id": "cred-1", "step_id": "x", "success": True})

    assert "cred-1" not in repr(lines) and "in-the-body" not in repr(lines)


def test_refusals_leave_lines_and_answers_to_pollers_do_not(told):
    desk, lines = told

    desk.get("/v0/health")
    desk.get("/v0/ready")
    desk.get("/metrics")
    assert lines == []

    desk.get("/v0/nowhere")
    desk.post("/v0/executions", {"agent_id": ""})
    assert [(line["route"], line["status"]) for line in lines] == [("GET none", 404), ("POST /v0/executions", 400)]


def test_a_line_names_whose_token_it_was(told):
    lines: list[dict] = []
    desk = Desk(tokens=(("mia", "s3cret"),), outcome=lambda name, facts, counts: lines.append(dict(facts)))

    desk.client.get("/v0/tools", headers={"authorization": "Bearer s3cret"})
    desk.client.get("/v0/tools", headers={"authorization": "Bearer wrong"})

    assert [(line["caller"], line["status"]) for line in lines] == [("mia", 200), (None, 401)]
    assert "s3cret" not in repr(lines) and "wrong" not in repr(lines)
