"""Worker specification 1.6, 4.5, 4.6: nothing that an attempt made reaches a seeker that has not paid, in any form.

A seeker writes both the input and the schema of the output, and has several free attempts. Whatever differs between
their failures could be made to spell the answer out.
"""

import json
from dataclasses import asdict, replace

import pytest

from piecework.errors import BadRequest, NoValidOutput, Refused, Retryable, Unprocessable, UpstreamFailed
from piecework.extend import executors
from piecework.extend.executors import Artifact, Outcome
from piecework.jsons import loads
from piecework.worker.answer.deliverables import MOST_FILES
from piecework.worker.stream.streams import HiredTasks, Recording, Streams
from tests.support.worker.records import changed
from tests.support.worker.stage import BODY, Stage
from tests.support.worker.streams import FakeStreamLog

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


ANSWER = "swordfish"
FILE = Artifact("a.txt", b"a", "text/plain")
ASKS_FOR_IT = {
    "type": "object",
    "if": {"properties": {"answer": {"const": ANSWER}}, "required": ["answer"]},
    "then": {"required": ["it_is_so"]},
    "else": {"required": ["it_is_something_else"]},
}
UNFIT = {
    "the word that is asked for": {"answer": ANSWER},
    "another word": {"answer": "herring"},
    "another type": ANSWER,
    "no JSON": {"answer": object()},
    "null": None,
    "a number too large to write": float("inf"),
}


def told_of(stage, do, **changes):
    """What a seeker reads of an attempt that failed: at once, when polling, by webhook, by asking again."""
    contract = stage.contract(**{"task__output_schema": ASKS_FOR_IT, **changes})
    stage.do = do
    first = stage.post(contract, BODY, stage.pay(contract))
    polled = stage.get(contract, first.body["task_id"])
    return first, polled, (first.status, first.body["error"], first.body["payment"])


def test_every_output_that_does_not_fit_is_told_in_one_fixed_text(stub):
    stage = Stage(stub)

    answers = [told_of(stage, lambda task, run, made=made: Outcome(made))[2] for made in UNFIT.values()]
    answers.append(told_of(stage, lambda task, run: Outcome({"answer": ANSWER}, deliverables=[FILE] * 101))[2])
    answers.append(told_of(stage, lambda task, run: Outcome(None, deliverables=[FILE]))[2])

    assert answers == [answers[0]] * len(answers)
    status, error, payment = answers[0]
    assert (status, error["code"], error["details"]) == (500, "OUTPUT_SCHEMA_INVALID", {})
    assert error["retryable"] is True and payment == {"status": "authorized"} and stage.charges() == 0


def test_an_output_past_the_limits_is_told_as_one_that_does_not_fit_the_schema(stub):
    stage = Stage(stub)

    many = told_of(stage, lambda task, run: Outcome(1, deliverables=[FILE] * (MOST_FILES + 1)), task__output_schema={})
    other = told_of(stage, lambda task, run: Outcome({"answer": "x"}))

    assert many[2] == other[2]


def test_the_operators_log_has_the_place_and_the_keyword(stub):
    stage = Stage(stub)
    schema = {"type": "object", "properties": {"a b": {"items": {"type": "string"}}}}

    told = told_of(stage, lambda task, run: Outcome({"a b": ["x", 7]}), task__output_schema=schema)

    (line,) = [fields for event, fields in stage.log.lines if event == "output_refused"]
    assert (line["path"], line["keyword"], line["executor"]) == ("/a b/1", "type", "probe")
    assert line["contract_id"] == told[0].body["contract_id"] and line["task_id"] == told[0].body["task_id"]
    assert "a b" not in told[0].text + told[1].text and "7" not in json.dumps(line["reason"])


def quoting(kind, answer=ANSWER):
    def fails(task, run):
        raise kind(f"the answer {answer} was not what was asked for")

    return fails


FAILURES = [Refused, Retryable, UpstreamFailed, NoValidOutput, BadRequest, Unprocessable, ValueError]


@pytest.mark.parametrize("kind", FAILURES)
def test_an_executors_text_that_quotes_its_output_is_told_to_nobody_and_the_log_says_where_it_is(stub, kind):
    stage = Stage(stub)

    other = told_of(stage, quoting(kind, "herring"))
    first, polled, told = told_of(stage, quoting(kind))

    assert told == other[2] and first.body["error"]["message"]
    assert ANSWER not in first.text + polled.text
    assert ANSWER not in str(stage.log.lines)
    assert [fields["where"] for _, fields in stage.log.lines if "in fails" in fields.get("where", "")]


def test_an_executor_that_reads_its_own_output_badly_does_not_tell_where(stub):
    stage = Stage(stub)

    texts = [told_of(stage, lambda task, run, made=made: loads(made))[2] for made in (b'{"a":', b"[1, 2", b"\xff")]

    assert texts == [texts[0]] * 3


def test_the_end_of_a_task_is_announced_without_what_it_made(stub):
    stage = Stage(stub)

    contract = stage.contract(task__output_schema=ASKS_FOR_IT, callbacks={"webhook_url": "https://seeker.example/hook"})
    stage.do = quoting(Refused)
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    ((_, body),) = stage.announced
    assert body["status"] == "failed" and ANSWER not in json.dumps(body)


def test_a_text_about_the_input_reaches_the_seeker_that_sent_it(stub):
    stage = Stage(stub)

    def fails(task, run):
        raise getattr(executors, "InputRefused", Refused)("input.order is needed")

    first, _, _ = told_of(stage, fails)

    assert (first.status, first.body["error"]["code"]) == (422, "INVALID_INPUT")
    assert first.body["error"]["message"] == "input.order is needed"


def test_a_seeker_that_has_paid_before_the_work_reads_why_it_failed(stub):
    stage = Stage(stub)
    contract = stage.contract("upfront", task__output_schema=ASKS_FOR_IT)
    stage.do = quoting(Refused)
    answer = stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    assert ANSWER in stage.get(contract, answer.body["task_id"]).body["error"]["message"]


def test_a_failure_that_was_stored_with_an_older_text_is_told_in_the_fixed_one(stub):
    stage = Stage(stub)
    first, _, _ = told_of(stage, lambda task, run: Outcome({"answer": ANSWER}))
    record = stage.executions.items[first.body["contract_id"]]
    older = replace(record.outcome.failure, message='output lacks the required member "it_is_so"')
    stage.executions.items[record.contract_id] = changed(record, failure=asdict(older))

    again = stage.get(record.contract_id, record.task_id)

    assert again.body["error"]["message"] == first.body["error"]["message"]


class Listening(Stage):
    """A stage with a stream."""

    def __init__(self, stub):
        self.events = FakeStreamLog()
        super().__init__(stub, ports={"listener": Recording(self.events)})
        tasks = HiredTasks(self.contracts, self.executions, self.worker.views.bodies, self.worker.texts)
        self.streams = Streams(self.events, tasks, self.clock)

    def heard(self, contract):
        batch = self.streams.after(contract.contract_id, self.standing(contract).task_id, "0")
        return [(event.kind, dict(event.data)) for event in batch.events]


@pytest.mark.parametrize(("executor", "message"), [("slow", ""), ("upfront", f"found {ANSWER}")])
def test_progress_is_a_whole_percentage_until_the_task_is_paid(stub, executor, message):
    stage = Listening(stub)
    contract, heard = stage.contract(executor, task__output_schema={}), []

    def tells(task, run):
        run.progress(41.724, f"found {ANSWER}")
        heard.extend(stage.heard(contract))
        return Outcome(7)

    stage.do = tells
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)

    assert heard == [("progress", {"pct": 41 if not message else 41.724, "message": message})]


def test_a_finished_part_says_nothing_but_its_kind_until_the_task_is_paid(stub):
    stage = Stage(stub)
    contract, polled = stage.contract("slow", task__output_schema={}), []

    def tells(task, run):
        for part in (Artifact(f"{ANSWER}.txt", ANSWER.encode(), "text/plain"), ANSWER, {"answer": ANSWER}):
            run.item(part)
        polled.append(stage.get(contract, task.task_id))
        return Outcome(7)

    stage.do = tells
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down(60)

    body = polled[0].body
    assert body["output"]["items"] == [{"type": kind, "withheld": True} for kind in ("file", "text", "json")]
    assert body["deliverables"] == [{"withheld": True}]


def test_an_output_that_does_not_fit_is_told_after_the_same_time_however_long_its_check_took(stub):
    pauses = []
    stage = Stage(stub)
    stage.worker.views.work._pause = pauses.append

    told_of(stage, lambda task, run: Outcome({"answer": ANSWER}))
    unfit = len(pauses)
    contract = stage.contract()
    stage.do = lambda task, run: Outcome({"score": 1})
    done = stage.post(contract, BODY, stage.pay(contract))

    assert unfit == 1 and 0 < pauses[0] <= 0.25
    assert done.status == 200 and len(pauses) == 1
