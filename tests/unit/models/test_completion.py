"""The conversation with a model: repair, budgets, steps, and what becomes of each failure."""

from dataclasses import replace

import pytest

from piecework import jsons
from piecework.errors import Refused, Retryable, UpstreamFailed
from piecework.models.answers import read_answer
from piecework.models.chat import QuestionRejected, Reply
from piecework.models.completing import Completion
from piecework.models.prompt import first_message
from tests.support.runtime.completions import (
    BRAIN,
    FITTING,
    GONE_WRONG,
    CannedModel,
    Clock,
    HeardLog,
    KeptSteps,
    a_run,
    a_task,
)


def complete(model, task=None, run=None, brain=BRAIN):
    return Completion(task or a_task(), run or a_run(), brain, model).output()


def test_an_answer_that_fits_is_the_output():
    model = CannedModel([FITTING])

    assert complete(model) == {"answer": "yes", "confidence": 0.9}
    assert len(model.asked) == 1


def test_an_answer_that_breaks_the_schema_twice_and_then_holds_is_repaired():
    model = CannedModel([GONE_WRONG, '{"answer":3}', FITTING])

    assert complete(model)["answer"] == "yes"
    assert [len(question.turns) for question in model.asked] == [1, 3, 3]
    assert model.asked[2].turns[1].text == '{"answer":3}'
    assert "answer" in model.asked[2].turns[2].text


def test_an_answer_that_never_holds_is_refused_after_all_repairs():
    model = CannedModel([GONE_WRONG])

    with pytest.raises(Refused, match="no output that fits output_schema"):
        complete(model)
    assert len(model.asked) == 4


def test_no_repairs_means_one_call():
    model = CannedModel([GONE_WRONG])

    with pytest.raises(Refused):
        complete(model, brain=replace(BRAIN, repairs=0))
    assert len(model.asked) == 1


@pytest.mark.parametrize("error", [Retryable("throttled"), UpstreamFailed("failed"), Refused("declined")])
@pytest.mark.parametrize("before", [[], [GONE_WRONG]])
def test_a_models_failure_ends_the_piece_as_it_is(error, before):
    model = CannedModel([*before, error])

    with pytest.raises(type(error)) as raised:
        complete(model)
    assert raised.value is error


def test_repair_ends_when_the_deadline_leaves_no_room_and_may_be_tried_again():
    clock = Clock(27_000)
    model = CannedModel([GONE_WRONG], clock=clock, call_ms=9_000)

    with pytest.raises(UpstreamFailed, match="too little time"):
        complete(model, run=a_run(clock))
    assert len(model.asked) == 3


def test_a_piece_with_too_little_time_is_not_begun():
    model = CannedModel([FITTING])

    with pytest.raises(Retryable, match="too little time"):
        complete(model, run=a_run(Clock(2_000)))
    assert model.asked == []


@pytest.mark.parametrize(
    ("left_ms", "call_ms", "budget_ms", "seconds"),
    [
        (27_000, 60_000, 110_000, 20.0),  # a short deadline leaves room for /verify
        (15_000, 60_000, 110_000, 13.5),
        (100_000, 60_000, 110_000, 60.0),
        (100_000, 60_000, 30_000, 30.0),
        (27_000, 10_000, 110_000, 10.0),
    ],
)
def test_a_first_call_is_bounded_by_the_deadline_and_both_budgets(left_ms, call_ms, budget_ms, seconds):
    model = CannedModel([FITTING])

    complete(model, run=a_run(Clock(left_ms)), brain=replace(BRAIN, call_ms=call_ms, budget_ms=budget_ms))

    assert model.asked[0].timeout_seconds == seconds


def test_the_profiles_budget_bounds_all_calls_together():
    clock = Clock(100_000)
    model = CannedModel([GONE_WRONG], clock=clock, call_ms=4_000)

    with pytest.raises(UpstreamFailed):
        complete(model, run=a_run(clock), brain=replace(BRAIN, budget_ms=8_500))
    assert [question.timeout_seconds for question in model.asked] == [8.5, 4.5]


def test_a_runner_that_takes_over_pays_for_no_answered_call_again():
    steps = KeptSteps()
    first = CannedModel([GONE_WRONG, Retryable("throttled")])
    with pytest.raises(Retryable):
        complete(first, run=a_run(steps=steps))
    second = CannedModel([FITTING])

    assert complete(second, run=a_run(steps=steps))["answer"] == "yes"
    assert [len(question.turns) for question in second.asked] == [3]


def test_a_finished_conversation_is_replayed_without_time_or_model():
    steps = KeptSteps()
    complete(CannedModel([GONE_WRONG, FITTING]), run=a_run(steps=steps))
    silent = CannedModel([Retryable("never asked")])

    assert complete(silent, run=a_run(Clock(0), steps=steps))["answer"] == "yes"
    assert silent.asked == []


def test_a_step_recorded_by_later_code_is_read_without_what_is_not_known():
    later = {"text": FITTING, "is_cut": False, "input_tokens": 1, "output_tokens": 2, "ended_as": "whole"}
    steps = KeptSteps()
    a_run(steps=steps).step("model-1", lambda: later)

    assert complete(CannedModel([Retryable("never asked")]), run=a_run(steps=steps))["answer"] == "yes"


def test_tokens_of_all_calls_are_noted():
    run = a_run()

    complete(CannedModel([GONE_WRONG, FITTING]), run=run)

    assert run.facts == {"model": "m-1", "model_calls": 2, "input_tokens": 20, "output_tokens": 10}


def test_a_failure_is_logged_with_the_tokens_it_cost_and_no_text_of_the_task():
    log = HeardLog()

    with pytest.raises(Refused):
        complete(CannedModel([GONE_WRONG]), run=a_run(log=log))

    ((event, fields),) = log.lines
    assert event == "completion_failed"
    assert fields["output_tokens"] == 20
    assert "hello" not in str(fields)


def test_structured_output_is_asked_for_and_given_up_where_the_endpoint_refuses_it():
    model = CannedModel([QuestionRejected("HTTP 400"), FITTING])

    assert complete(model)["answer"] == "yes"
    assert [question.schema is not None for question in model.asked] == [True, False]


def test_a_plain_question_that_is_rejected_is_not_repeated():
    model = CannedModel([QuestionRejected("HTTP 400")])

    with pytest.raises(UpstreamFailed):
        complete(model, brain=replace(BRAIN, structured="off"))
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("kind", "structured", "schema", "asked"),
    [
        ("openai-compatible", "auto", {"type": "object"}, True),
        ("openai-compatible", "off", {"type": "object"}, False),
        ("openai-compatible", "auto", {"type": "string"}, False),
        ("openai-compatible", "auto", True, False),
        ("bedrock", "auto", {"type": "object"}, False),
        ("bedrock", "auto", {"type": "object", "additionalProperties": False, "properties": {}}, True),
        ("bedrock", "json_schema", {"type": "object"}, True),
    ],
)
def test_schemas_are_sent_where_the_model_is_likely_to_take_them(kind, structured, schema, asked):
    model = CannedModel(["{}"])
    brain = replace(BRAIN, kind=kind, structured=structured)

    complete(model, a_task({}, output_schema=schema), brain=brain)

    assert (model.asked[0].schema is not None) is asked


@pytest.mark.parametrize(
    ("stage", "temperature", "used"),
    [
        ("explore", 0.2, 0.2),
        ("diverge", 0.2, 0.8),
        ("diverge", 0.7, 1.0),
        ("diverge", 1.4, 1.4),
        ("diverge", None, None),
    ],
)
def test_the_diverge_stage_raises_the_temperature(stage, temperature, used):
    model = CannedModel([FITTING])

    complete(model, a_task(stage=stage), brain=replace(BRAIN, temperature=temperature))

    assert model.asked[0].temperature == used


def test_the_trace_id_goes_with_every_question():
    model = CannedModel([GONE_WRONG, FITTING])

    complete(model, run=a_run(trace_id="Root=1-0-0"))

    assert {question.trace_id for question in model.asked} == {"Root=1-0-0"}


@pytest.mark.parametrize(
    "text",
    [
        FITTING,
        f"\n\n{FITTING}\n",
        f"```json\n{FITTING}\n```",
        f"```\n{FITTING}```",
        f"Sure! Here it is:\n\n```json\n{FITTING}\n```\nAnything else?",
        f"The answer is {FITTING} as asked.",
        f"<think>{{not this}}</think>{FITTING}",
    ],
)
def test_json_is_found_inside_what_models_put_around_it(text):
    assert read_answer(a_task(), Reply(text)).output == {"answer": "yes", "confidence": 0.9}


def test_prose_becomes_the_reference_answer_where_the_schema_takes_it():
    fit = read_answer(a_task(raw_stage="finalize"), Reply("It is blue."))

    assert fit.output == {
        "answer": "It is blue.",
        "confidence": 0.93,
        "check_summary": "stage=finalize attempt=attempt-1",
    }


def test_prose_is_the_output_itself_where_a_string_is_asked_for():
    assert read_answer(a_task({"type": "string"}), Reply("It is blue.")).output == "It is blue."


def test_whole_numbers_are_written_as_integers_where_the_schema_asks_for_them():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}

    fitted = read_answer(a_task(schema), Reply('{"n":3.0,"x":1.5}')).output

    assert fitted == {"n": 3, "x": 1.5}
    assert isinstance(fitted["n"], int)


@pytest.mark.parametrize("number", ["12345678901234567890123", "0.12345678901234567890123", "3.0000000000000000001"])
def test_a_models_number_that_no_double_is_is_asked_for_anew_and_not_rounded(number):
    fit = read_answer(a_task({"type": "object"}), Reply(f'{{"n":{number}}}'))

    assert fit.output is None
    assert "the number at output.n" in fit.problem
    assert (
        "at most 15 significant digits" in fit.problem
    )  # a model is shown this; a text would not fit a number's schema


def test_a_models_number_with_idle_zeros_is_the_number_it_means():
    assert read_answer(a_task({"type": "object"}), Reply('{"n":1.50,"m":1.0E2}')).output == {"n": 1.5, "m": 100.0}


def test_a_model_reads_numbers_as_they_were_written():
    inputs = getattr(jsons, "loads_exact", jsons.loads)('{"prompt":"p","price":1.50,"far":1e400,"mark":"<"}')

    shown = first_message(replace(a_task(), inputs=inputs))

    assert '"far":1e+400' in shown
    assert '"price":1.50' in shown
    assert "\\u003c" in shown
    assert "Infinity" not in shown


@pytest.mark.parametrize(
    "text", ['{"answer":"a', '{"answer":NaN}', '{"answer":"a","answer":"b"}', "[" * 5_000, "{} {}"]
)
def test_text_that_only_looks_like_json_is_no_answer(text):
    fit = read_answer(a_task(), Reply(text))

    assert fit.output is None
    assert fit.problem


def test_an_answer_that_was_cut_off_says_so():
    assert "cut off" in read_answer(a_task(), Reply('{"answer":"a', is_cut=True)).problem


def test_hostile_texts_are_read_in_bounded_time():
    for text in ("```" + "\n" * 80_000, "`" * 80_000, "{" * 80_000, "<think>" * 10_000):
        assert read_answer(a_task({"type": "object", "required": ["n"]}), Reply(text)).output is None
