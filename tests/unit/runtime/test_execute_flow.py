"""The execute flow over fakes: what reaches an executor, what is checked before answering, what is recorded."""

import asyncio
import json
import math

import pytest

from piecework.durable.artifacts import ARTIFACT_LIMIT
from piecework.durable.pieces import LEASE_MS
from piecework.errors import Internal, Unprocessable
from piecework.extend.executors import Outcome, Refused, Retryable
from piecework.jsons import canonical, loads
from piecework.runtime.execute.flow import StoredFailure
from piecework.schemas import SchemaRejected
from tests.support.runtime.flows import FlowBench, answering


def parsed(executed) -> dict:
    return json.loads(executed.body)


def test_an_answer_has_all_three_members():
    assert parsed(FlowBench(answering()).execute()) == {
        "candidate_output": {"answer": "x"},
        "evidence_inline": [],
        "evidence_refs": [],
    }


def test_a_task_carries_what_the_caller_asked():
    bench = FlowBench(answering())
    bench.execute(stage="DIVERGE_MODE", seed_bundle={"hits": []}, contract={"expiry_ms": 1})
    (task,) = bench.tasks

    assert (task.door, task.caller, task.stage, task.raw_stage) == ("runtime", "c", "diverge", "diverge_mode")
    assert (task.prompt, task.seed, task.contract["expiry_ms"]) == ("p", {"hits": []}, 1)
    assert task.deadline_ms == bench.clock() + 25_000


def test_a_deadline_is_never_later_than_the_executor_allows():
    bench = FlowBench(answering(), max_duration_ms=5_000)
    bench.execute()

    assert bench.tasks[0].deadline_ms == bench.clock() + 5_000


@pytest.mark.parametrize("inputs", [[1], "p", None, {"prompt": 5}, {}])
def test_a_prompt_that_is_no_string_is_absent(inputs):
    bench = FlowBench(answering())
    bench.execute(inputs=inputs)

    assert bench.tasks[0].prompt is None


def test_evidence_and_artifacts_are_attached_and_can_be_fetched():
    def work(task, run):
        run.evidence("trace")
        run.artifact("a.txt", b"bytes", "text/plain")
        return Outcome({"answer": "x"})

    bench = FlowBench(work)
    answer = parsed(bench.execute())
    (ref,) = answer["evidence_refs"]
    (((digest, token), served),) = bench.evidence.objects.items()

    assert answer["evidence_inline"] == [{"mime": "text/plain", "content": "trace"}]
    assert ref == {
        "uri": f"https://rt.example/artifacts/{digest}/{token}",
        "digest": f"sha256:{digest}",
        "size_bytes": 5,
        "mime": "text/plain",
        "created_at": bench.clock(),
        "producer": "family/probe",
    }
    assert served.data == b"bytes"


def test_an_answer_is_in_canonical_form_whatever_it_holds():
    def work(task, run):
        run.evidence("é\n1e-7")
        run.evidence('{"b":1,"a":[]}', "application/json")
        run.artifact("a.txt", b"bytes", "text/plain")
        run.artifact("b.txt", b"more", "text/plain")
        return Outcome({"small": 1e-7, "answer": "x", "b": {10: 1, 9: 2}})

    body = FlowBench(work).execute().body

    assert canonical(loads(body)) == body
    assert len(json.loads(body)["evidence_inline"]) == len(json.loads(body)["evidence_refs"]) == 2


def test_an_artifact_over_the_limit_is_dropped_not_the_answer():
    def work(task, run):
        run.artifact("big", b"x" * (ARTIFACT_LIMIT + 1))
        run.artifact("fits", b"x" * ARTIFACT_LIMIT)
        return Outcome({"answer": "x"})

    bench = FlowBench(work)
    answer = parsed(bench.execute())

    assert [ref["size_bytes"] for ref in answer["evidence_refs"]] == [ARTIFACT_LIMIT]
    assert bench.log.lines[0][0] == "artifact_dropped"


@pytest.mark.parametrize("mime", ["text/html\r\nX-Evil: 1", "é/x", "", "a b/c"])
def test_a_media_type_that_is_none_becomes_plain_bytes(mime):
    def work(task, run):
        run.artifact("a", b"x", mime)
        return Outcome({"answer": "x"})

    (ref,) = parsed(FlowBench(work).execute())["evidence_refs"]

    assert ref["mime"] == "application/octet-stream"


@pytest.mark.parametrize(
    "output",
    [None, {"answer": 1}, {}, [], math.nan, {"answer": object()}, {"answer": "\ud800"}, {"answer": "x" * 65_536}],
)
def test_an_output_that_would_be_refused_is_a_recorded_failure(output):
    bench = FlowBench(lambda task, run: Outcome(output))
    for _ in range(2):
        with pytest.raises(StoredFailure) as caught:
            bench.execute()
        assert caught.value.code == "no_valid_output" and "object at" not in caught.value.message
    assert len(bench.tasks) == 1


def test_a_check_that_would_take_too_long_is_a_recorded_failure_too():
    schema = {"type": "object", "$defs": {"d0": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d24"}}}
    for n in range(24):
        schema["$defs"][f"d{n + 1}"] = {"anyOf": [{"$ref": f"#/$defs/d{n}"}, {"$ref": f"#/$defs/d{n}"}]}
    bench = FlowBench(answering({"a": 1}))

    for _ in range(2):
        with pytest.raises(StoredFailure, match="no output that fits"):
            bench.execute(schema=schema)
    assert len(bench.tasks) == 1


def test_tuples_come_out_as_json_has_them():
    bench = FlowBench(answering({"answer": "x", "pair": (1, 2)}))

    assert parsed(bench.execute())["candidate_output"] == {"answer": "x", "pair": [1, 2]}


def test_a_refusal_is_recorded_and_a_transient_failure_is_not():
    refusing = FlowBench(lambda task, run: (_ for _ in ()).throw(Refused("inputs.prompt is too vague")))
    busy = FlowBench(lambda task, run: (_ for _ in ()).throw(Retryable("the model is busy")))

    for _ in range(2):
        with pytest.raises(StoredFailure, match="too vague"):
            refusing.execute()
        with pytest.raises(Retryable, match="busy"):
            busy.execute()
    assert (len(refusing.tasks), len(busy.tasks)) == (1, 2)


def test_a_bug_is_answered_without_its_text_and_may_be_tried_again():
    bench = FlowBench(lambda task, run: 1 / 0)

    with pytest.raises(Internal) as caught:
        bench.execute()
    assert "division" not in caught.value.message
    with pytest.raises(Internal):
        bench.execute()


@pytest.mark.parametrize("attach", [lambda run: run.artifact("a", "text"), lambda run: run.evidence(b"bytes")])
def test_attaching_the_wrong_kind_is_the_executors_bug_and_releases_the_piece(attach):
    def work(task, run):
        attach(run)
        return Outcome({"answer": "x"})

    bench = FlowBench(work)
    for _ in range(2):
        with pytest.raises(Internal):
            bench.execute(seconds=1)


def test_what_is_no_outcome_is_a_bug():
    with pytest.raises(Internal):
        FlowBench(lambda task, run: {"answer": "x"}).execute()


def test_async_executors_run_and_end_at_their_deadline():
    async def quick(task, run):
        return Outcome({"answer": await run.step("s", nap)})

    async def nap() -> str:
        await asyncio.sleep(0)
        return "slept"

    async def endless(task, run):
        await asyncio.sleep(60)

    assert parsed(FlowBench(quick).execute())["candidate_output"] == {"answer": "slept"}
    with pytest.raises(Retryable, match="did not finish"):
        FlowBench(endless).execute(seconds=0.05)


def test_a_step_is_not_run_again_by_the_next_runner():
    calls = []

    def work(task, run):
        calls.append(run.step("pay", lambda: {"nonce": len(calls)}))
        if len(calls) == 1:
            raise Retryable("after the step")
        return Outcome({"answer": str(calls[-1]["nonce"])})

    bench = FlowBench(work)
    with pytest.raises(Retryable):
        bench.execute()

    assert parsed(bench.execute())["candidate_output"] == {"answer": "0"}
    assert calls == [{"nonce": 0}, {"nonce": 0}]


def test_steps_of_another_payload_are_not_seen():
    seen = []

    def work(task, run):
        seen.append(run.step("s", lambda: task.prompt))
        raise Retryable("again")

    bench = FlowBench(work)
    for prompt in ("one", "two"):
        with pytest.raises(Retryable):
            bench.execute(inputs={"prompt": prompt})

    assert seen == ["one", "two"]


def test_tools_are_refused_at_this_door():
    with pytest.raises(StoredFailure, match="does not have tools"):
        FlowBench(lambda task, run: Outcome(run.tool("web.search"))).execute()


@pytest.mark.parametrize("schema", [True, "x", 5, None, {"type": "object", "pattern": "(?=x)"}, {"$ref": "http://x/y"}])
def test_a_schema_that_cannot_be_used_is_refused_before_any_work(schema):
    bench = FlowBench(answering())
    with pytest.raises((SchemaRejected, Unprocessable, StoredFailure)):
        bench.execute(schema=schema)
    assert schema is True or bench.tasks == []


def test_an_unknown_profile_is_named():
    with pytest.raises(Unprocessable, match="profile"):
        FlowBench(answering()).execute(profile="turbo")


def test_callers_do_not_share_pieces():
    bench = FlowBench(answering())
    bench.execute(caller="a")
    bench.execute(caller="b")

    assert len(bench.tasks) == 2


def test_the_outcome_line_has_figures_and_no_texts():
    def work(task, run):
        run.note(input_tokens=7, output_tokens=3)
        return Outcome({"answer": "secret answer"})

    bench = FlowBench(work)
    executed = bench.execute(inputs={"prompt": "secret prompt"})

    assert executed.counts == {"InputTokens": 7, "OutputTokens": 3}
    assert executed.facts["executor"] == "probe" and "secret" not in repr(executed.facts)
    assert bench.execute(inputs={"prompt": "secret prompt"}).counts == {"Replays": 1}


def test_a_waiter_reads_at_growing_gaps():
    bench = FlowBench(answering())
    gaps, sleep = [], bench.clock.sleep
    bench.pieces._sleep = lambda seconds: (gaps.append(seconds), sleep(seconds))
    bench.pieces.claim("k", "f")
    with pytest.raises(Exception, match="still running"):
        bench.pieces.wait("k", "f", bench.clock() + LEASE_MS - 1_000)

    assert gaps[0] <= 0.05 and 0.5 <= max(gaps) <= 1.0 and len(gaps) < 35


def test_notes_of_an_executor_never_stand_for_what_the_door_says_itself():
    def work(task, run):
        run.note(replayed=True, caller="somebody", executor="other", input_tokens="many", model="m-1")
        return Outcome({"answer": "x"})

    executed = FlowBench(work).execute()

    assert (executed.facts["replayed"], executed.facts["caller"]) == (False, "c")
    assert executed.facts["executor"] != "other"
    assert executed.facts["model"] == "m-1"
    assert "InputTokens" not in executed.counts


def test_a_run_that_outlives_its_request_is_recorded_for_the_resend():
    """The edge has given the request up after 25 s; its function goes on."""
    bench = FlowBench(lambda task, run: bench.clock.move(35) or Outcome({"answer": str(len(bench.tasks))}))
    until_ms = bench.clock() + 25_000

    bench.flow.execute(
        bench.body(), caller="c", until_ms=until_ms, run_until_ms=until_ms + 60_000, public_url="https://rt.example"
    )

    assert bench.tasks[0].deadline_ms == until_ms + 35_000  # the executor's own longest time
    again = bench.execute()
    assert again.facts["replayed"] and parsed(again)["candidate_output"] == {"answer": "1"}


def test_an_async_run_is_not_ended_with_its_request():
    async def slow(task, run):
        await asyncio.sleep(0.1)
        return Outcome({"answer": "late"})

    bench = FlowBench(slow)
    until_ms = bench.clock() + 20
    executed = bench.flow.execute(
        bench.body(), caller="c", until_ms=until_ms, run_until_ms=until_ms + 5_000, public_url="https://rt.example"
    )

    assert parsed(executed)["candidate_output"] == {"answer": "late"}
