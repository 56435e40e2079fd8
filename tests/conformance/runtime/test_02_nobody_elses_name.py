"""Runtime specification, case 34 as amended: nobody answers in another's name, and a deployment names no default."""

import pytest

from tests.support.runtime.requests import an_execute_request, error_of, execute, executed

pytestmark = pytest.mark.inside("starts a door that is cold, or is set otherwise")

NONE = {"PIECEWORK_PARAM_DefaultExecutor": None}  # as the template deploys it


@pytest.fixture
def undecided(gateway):
    """A runtime door whose operator has named no default executor."""
    return gateway(**NONE)


@pytest.mark.parametrize("task_type", ["operator-made", "Swarm", "swarm "])
def test_an_unknown_task_type_is_refused_where_no_default_is_named(undecided, task_type):
    answer = execute(undecided, an_execute_request(task_type))

    assert answer.status_code == 422 and error_of(answer)["code"] == "task_type_unknown"
    assert "/capabilities" in error_of(answer)["error"]


def test_a_type_that_an_executor_lists_is_served_without_a_default(undecided):
    answer = execute(undecided, an_execute_request("scripted", inputs={"output": {"answer": "a", "confidence": 0.5}}))

    assert answer.status_code == 200


def test_capabilities_list_nothing_of_an_executor_that_this_door_cannot_run(gateway, tmp_path):
    (tmp_path / "asks.py").write_text(
        "from piecework.extend.executors import Outcome, executor\n"
        "@executor('asks', task_types=('with_tools',), profiles={'default': {}, 'with_tools': {}}, needs_tools=True)\n"
        "def asks(task, run):\n    return Outcome({})\n"
        "@executor('unreached', task_types=(), profiles={'default': {}, 'unreached': {}})\n"
        "def unreached(task, run):\n    return Outcome({})\n"
    )
    runtime = gateway(fresh=True, PIECEWORK_EXECUTORS_PATH=str(tmp_path))

    told = runtime.http.get("/capabilities").json()
    refused = execute(runtime, an_execute_request("with_tools", profile="with_tools"))

    assert "echo" not in told["task_types"] and "swarm" in told["task_types"]
    assert not {"with_tools"} & {*told["task_types"], *told["profiles"]} and "unreached" not in told["profiles"]
    assert refused.status_code == 422


def test_answers_and_evidence_name_the_executor_that_ran(gateway):
    runtime = gateway()
    request = an_execute_request("swarm")

    first, again = execute(runtime, request), execute(runtime, request)

    assert first.headers["X-Piecework-Made-By"] == "echo"
    assert {ref["producer"] for ref in first.json()["evidence_refs"]} == {"piecework/echo"}
    assert again.content == first.content and "X-Piecework-Made-By" not in again.headers


def test_the_default_serves_an_unknown_type_under_its_own_name(gateway):
    made = executed(gateway(), an_execute_request("operator-made"))

    assert {ref["producer"] for ref in made["evidence_refs"]} == {"piecework/echo"}
