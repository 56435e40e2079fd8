"""The completion executor behind the real gateway: one model call per piece, and the door's status for each failure."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.model_server import INNER_TEXT, ModelServer
from tests.support.machine import RunningGateway, wait_until
from tests.support.runtime.completions import settings
from tests.support.runtime.requests import a_seed, an_execute_request, error_of, execute, executed

EXECUTE = "runtime.execute.app.handler"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(key="k-secret") as server:
        yield server


@pytest.fixture(scope="module")
def runtime(gateway, server) -> RunningGateway:
    return gateway(PIECEWORK_PARAM_DefaultExecutor="completion", **settings(server.url, CALL_MS_FAST="1500"))


@pytest.fixture(autouse=True)
def good(server) -> None:
    server.follow(["good"])


def test_the_model_answers_a_kernels_request(runtime, server):
    body = executed(runtime, an_execute_request())

    assert body["candidate_output"]["answer"] == "as the model says"
    assert body["evidence_inline"][0]["content"].startswith("trace:exec-p-")
    assert len(body["evidence_refs"]) == 1
    assert server.calls[0]["headers"]["x-amzn-trace-id"].startswith("Root=1-")


def test_an_answer_that_breaks_the_schema_twice_and_then_holds_is_repaired(runtime, server):
    server.follow(["misfit", "broken", "good"])

    assert executed(runtime, an_execute_request())["candidate_output"]["decision"] == "ACCEPT"
    assert len(server.calls) == 3


def test_an_answer_that_never_holds_is_400_for_good(runtime, server):
    server.follow(["misfit"])
    request = an_execute_request()

    first, again = execute(runtime, request), execute(runtime, request)

    assert first.status_code == again.status_code == 400
    assert error_of(first)["code"] == "refused"
    assert len(server.calls) == 4


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("throttled", 503),
        ("error:504", 502),
        ("error:401", 502),
        ("huge", 502),
        ("notjson", 502),
        ("hangup", 502),
        ("end:error", 502),
        ("end:banana", 502),
    ],
)
def test_a_models_failure_is_not_recorded_and_tells_nothing(runtime, server, word, status):
    server.follow([word, "good"])
    request = an_execute_request()

    failed = execute(runtime, request)

    assert failed.status_code == status
    assert INNER_TEXT not in failed.text
    assert executed(runtime, request)["candidate_output"]["answer"] == "as the model says"


@pytest.mark.parametrize("word", ["filtered", "refusal", "end:content_filter"])
def test_a_model_that_declines_is_asked_once(runtime, server, word):
    server.follow([word, "good"])
    request = an_execute_request()

    first, again = execute(runtime, request), execute(runtime, request)

    assert first.status_code == again.status_code == 400
    assert INNER_TEXT not in first.text
    assert len(server.calls) == 1


def test_a_slow_model_is_502_within_its_profiles_budget(runtime, server):
    server.follow(["slow:9"])

    assert execute(runtime, an_execute_request(profile="fast"), timeout=8).status_code == 502


def test_duplicates_share_one_call(runtime, server):
    server.follow(["slow:1"])
    request = an_execute_request()

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: execute(runtime, request), range(5)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(server.calls) == 1


def test_a_piece_released_in_its_repair_continues_after_the_call_that_was_answered(runtime, server):
    server.follow(["misfit", "throttled", "good"])
    request = an_execute_request()

    assert execute(runtime, request).status_code == 503
    assert executed(runtime, request)["candidate_output"]["answer"] == "as the model says"
    assert [len(call["body"]["messages"]) for call in server.calls] == [2, 4, 4]


def test_the_exact_earlier_answer_is_reused_without_a_call(runtime, server):
    request = an_execute_request(stage="DECIDE", seed_bundle=a_seed({"answer": "earlier"}))

    assert executed(runtime, request)["candidate_output"] == {"answer": "earlier"}
    assert server.calls == []


def test_an_a2a_task_is_answered_by_the_model(runtime, server):
    executed(runtime, an_execute_request("a2a_invoke"))

    assert len(server.calls) == 1


def test_the_outcome_line_has_the_tokens_and_neither_key_nor_prompt(runtime, server):
    executed(runtime, an_execute_request(inputs={"prompt": "a prompt nobody logs"}))

    wait_until(lambda: '"input_tokens":11' in runtime.logged())
    assert '"output_tokens":7' in runtime.logged()
    assert "a prompt nobody logs" not in runtime.logged()
    assert "k-secret" not in runtime.logged()
    assert INNER_TEXT not in runtime.logged()


@pytest.mark.slow
def test_a_killed_runners_answered_call_is_not_paid_for_again(gateway, server):
    runtime = gateway(fresh=True, PIECEWORK_PARAM_DefaultExecutor="completion", **settings(server.url))
    server.follow(["misfit", "slow:3", "good"])
    request = an_execute_request()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(execute, runtime, request)
        wait_until(lambda: len(server.calls) == 2)
        runtime.kill(EXECUTE)
        assert first.result().status_code >= 500
    answer = executed(runtime, request)
    runtime.close()

    assert answer["candidate_output"]["answer"] == "as the model says"
    assert [len(call["body"]["messages"]) for call in server.calls] == [2, 4, 4]
