"""The echo executor: the reference's answer where the schema takes it, a filled value elsewhere, else a refusal."""

from dataclasses import replace

import pytest

from executors.echo import echo
from piecework.extend.executors import Evidence, Refused, Run, Task, registered
from piecework.jsons import canonical, digest
from piecework.schemas import compile_schema, minimal_ok

SAMPLE_SCHEMA = {
    "type": "object",
    "required": ["answer"],
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number"}, "check_summary": {"type": "string"}},
}
MAX_OUTPUT_BYTES = 65_536


def a_task(schema=SAMPLE_SCHEMA, **changes) -> Task:
    def problem(output):
        if len(canonical(output)) > MAX_OUTPUT_BYTES:
            return "too large"
        if not minimal_ok(schema, output):
            return "fails the minimal check"
        return compile_schema(schema).explain(output)

    task = Task(
        door="runtime",
        caller="anonymous",
        task_type="swarm",
        prompt="hi",
        inputs={"prompt": "hi"},
        output_schema=schema,
        task_id="task-9",
        execution_id="exec-9",
        attempt_id="exec-9",
        deadline_ms=0,
        contract={},
        raw_stage="EXPLORE",
        check=problem,
    )
    return replace(task, **changes)


def run_echo(task: Task) -> tuple[object, Run]:
    run = Run(remaining_ms=lambda: 1_000)
    return echo(task, run).output, run


def a_seed(*payloads, hit_type="Exact") -> dict:
    return {"seed_type": "SIMILAR_HITS_V1", "hits": [{"hit_type": hit_type, "reuse_payload": p} for p in payloads]}


def test_the_reference_answer_with_a_decision():
    output, run = run_echo(a_task())

    assert output == {
        "answer": "default::hi",
        "confidence": 0.93,
        "check_summary": "stage=explore attempt=exec-9",
        "decision": "ACCEPT",
    }
    assert run.collected_evidence == [Evidence("text/plain", "trace:exec-9")]


def test_the_answer_record_is_the_references_bytes():
    _, run = run_echo(a_task())

    (record,) = run.collected_artifacts
    assert record.data == b"task-9|exec-9|default::hi"
    assert record.mime == "application/json"


def test_aggregation_fields_are_there_when_the_schema_allows_them():
    schema = {**SAMPLE_SCHEMA, "properties": {**SAMPLE_SCHEMA["properties"], "decision": {"type": "string"}}}
    for allowing in (SAMPLE_SCHEMA, {**schema, "additionalProperties": False}, {"type": "object"}, {}):
        output, _ = run_echo(a_task(allowing))

        assert isinstance(output["decision"], str)
        assert 0 <= output["confidence"] <= 1


def test_a_closed_schema_gets_only_what_it_names():
    schema = {**SAMPLE_SCHEMA, "additionalProperties": False}

    output, _ = run_echo(a_task(schema))

    assert set(output) == {"answer", "confidence", "check_summary"}


def test_a_decision_of_the_schemas_own_words_is_chosen():
    schema = {
        "type": "object",
        "required": ["answer"],
        "properties": {"answer": {}, "decision": {"enum": ["yes", "no"]}},
    }

    output, _ = run_echo(a_task(schema))

    assert output["decision"] == "yes"


@pytest.mark.parametrize(
    ("prompt", "answer"), [(None, "default::no-prompt"), ("", "default::"), ("a\nb", "default::a\nb")]
)
def test_without_a_prompt_it_says_so(prompt, answer):
    output, _ = run_echo(a_task(prompt=prompt))

    assert output["answer"] == answer


def test_profile_and_raw_stage_appear():
    output, _ = run_echo(a_task(profile="fast", raw_stage="Banana", attempt_id="attempt-001"))

    assert output["answer"] == "fast::hi"
    assert output["check_summary"] == "stage=banana attempt=attempt-001"


def test_typed_schemas_get_typed_values():
    schema = {
        "type": "object",
        "required": ["count", "level", "parts"],
        "properties": {
            "count": {"type": "integer", "minimum": 3},
            "level": {"enum": ["low", "high"]},
            "parts": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["text"], "properties": {}},
            },
        },
    }

    output, _ = run_echo(a_task(schema))

    assert output == {"count": 3, "level": "low", "parts": [{"text": "hi"}]}
    assert type(output["count"]) is int


def test_decide_reuses_an_exact_hit_that_fits():
    payload = {"answer": "earlier", "extra": 1}

    output, run = run_echo(a_task(stage="decide", seed=a_seed(payload)))

    assert output == payload
    assert run.collected_artifacts[0].data == b"task-9|exec-9|earlier"


@pytest.mark.parametrize(("made_by", "asked"), [("default", "fast"), ("fast", "default"), ("own-1", "fast")])
def test_decide_answers_anew_for_another_profile(made_by, asked):
    output, _ = run_echo(a_task(stage="decide", profile=asked, seed=a_seed({"answer": f"{made_by}::earlier"})))

    assert output["answer"] == f"{asked}::hi"


@pytest.mark.parametrize("profile", ["default", "fast"])
def test_decide_reuses_what_the_same_profile_made(profile):
    output, _ = run_echo(a_task(stage="decide", profile=profile, seed=a_seed({"answer": f"{profile}::earlier"})))

    assert output == {"answer": f"{profile}::earlier"}


@pytest.mark.parametrize(
    "seed",
    [
        None,
        {},
        {"hits": None},
        {"hits": ["x"]},
        a_seed({"answer": 5}),
        a_seed(None),
        a_seed({"answer": "x"}, hit_type="Similar"),
    ],
)
def test_decide_makes_a_fresh_answer_without_a_usable_hit(seed):
    output, _ = run_echo(a_task(stage="decide", seed=seed))

    assert output["answer"] == "default::hi"


@pytest.mark.parametrize("stage", ["explore", "verify", "finalize", "diverge"])
def test_other_stages_leave_the_seed_alone(stage):
    output, _ = run_echo(a_task(stage=stage, seed=a_seed({"answer": "earlier"})))

    assert output["answer"] != "earlier"


def test_diverging_gives_something_else_every_time_the_same():
    usual, _ = run_echo(a_task())
    other, _ = run_echo(a_task(stage="diverge"))
    again, _ = run_echo(a_task(stage="diverge"))

    assert other == again
    assert digest(other) != digest(usual)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["x"], "properties": {"x": {"enum": []}}},
        False,
        {"type": "integer", "minimum": 2, "maximum": 1},
    ],
)
def test_what_cannot_be_satisfied_is_refused(schema):
    with pytest.raises(Refused, match="did not find an output that fits the schema"):
        run_echo(a_task(schema))


@pytest.mark.parametrize("character", ["x", '"', "\u0001", "😀", "é"])
def test_a_huge_prompt_is_cut_to_an_output_of_allowed_size(character):
    output, _ = run_echo(a_task(prompt=character * 300_000))

    assert len(canonical(output)) <= MAX_OUTPUT_BYTES
    assert output["answer"].startswith(f"default::{character}")


def test_it_is_registered_with_both_profiles():
    assert set(registered()["echo"].profiles) == {"default", "fast"}
    assert registered()["echo"].task_types == ("swarm", "a2a_invoke")
