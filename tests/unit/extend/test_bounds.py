"""What executors make is bounded at every door, before anything is stored; a row per door and thing that was made."""

import pytest

from piecework.errors import Unavailable
from piecework.extend.executors import Artifact, Outcome, Refused, Retryable
from piecework.runtime.execute.flow import StoredFailure
from piecework.worker.record.states import State
from tests.support.kernel.hosted_stage import HostedHouse
from tests.support.runtime.flows import FlowBench
from tests.support.worker.stage import BODY, Stage, stub_facilitator

ITEM_BYTES = 400_000  # of DynamoDB
LONG = "r" * 210_000
HUGE = "x" * 500_000
SURROGATE = "half a pair \ud800 of surrogates"


@pytest.fixture(scope="module")
def stub():
    with stub_facilitator() as running:
        yield running


def refusing(text, kind=Refused):
    def refuse(task, run):
        raise kind(text)

    return refuse


def stepping(result, name="s"):
    return lambda task, run: Outcome({"answer": str(run.step(name, lambda: result))[:10]})


def noting(**facts):
    def note(task, run):
        run.note(**facts)
        return Outcome({"answer": "x", "score": 1})

    return note


def attaching(*artifacts):
    return lambda task, run: Outcome({"answer": "x", "score": 1}, deliverables=artifacts)


def collecting(name, mime="text/plain"):
    def collect(task, run):
        run.artifact(name, b"x", mime)
        return Outcome({"answer": "x", "score": 1})

    return collect


REFUSED_FOR_GOOD = {
    "a refusal's text": refusing(LONG),
    "a refusal that is not text": refusing(None),
    "a step's result": stepping(HUGE),
    "a step's result that is not JSON": stepping(object()),
    "a step's name": stepping(1, "n" * 5_000),
    "an artifact's name": collecting("n" * 5_000),
    "a deliverable's name": attaching(Artifact("n" * 5_000, b"x", "text/plain")),
    "a tool's id": lambda task, run: Outcome(run.tool("t" * 5_000)),
    "a tool's arguments": lambda task, run: Outcome(run.tool("t", {"a": "x" * 1_100_000})),
}


@pytest.mark.parametrize("made", REFUSED_FOR_GOOD.values(), ids=REFUSED_FOR_GOOD)
class TestWhatIsRefusedForGood:
    def test_the_runtime_door_records_it_and_runs_nothing_again(self, made):
        bench = FlowBench(made)

        for _ in range(2):
            with pytest.raises(StoredFailure) as caught:
                bench.execute()
            assert caught.value.code == "refused" and len(caught.value.message.encode()) <= 4_096
        assert len(bench.tasks) == 1

    def test_the_worker_door_ends_the_task_by_it_unpaid(self, stub, made):
        stub.reset()
        stage = Stage(stub, inline=False)
        stage.do = made
        contract = stage.contract()

        answers = [stage.post(contract, BODY, stage.pay(contract)), stage.post(contract)]

        assert [answer.status for answer in answers] == [500, 500] and len(stage.runs) == 1
        assert {answer.body["error"]["code"] for answer in answers} == {"EXECUTION_FAILED"}
        assert stage.state(contract) is State.FAILED_PERMANENT and stage.charges() == 0
        assert stage.executions.largest < ITEM_BYTES // 4

    def test_a_hosted_execution_fails_by_it(self, made):
        house = HostedHouse(desk=made)
        execution_id = house.begin()

        assert house.settle() == ["failed"]
        assert len(house.error(execution_id).encode()) <= 4_096


@pytest.mark.parametrize("made", [refusing(SURROGATE), stepping(1, SURROGATE)], ids=["refusal", "name"])
def test_a_text_that_cannot_be_written_is_refused_in_one_that_can(made):
    told = []  # what went wrong is kept apart: no report of a failed test may hold the text itself
    try:
        FlowBench(made).execute()
    except StoredFailure as failure:
        told.append(failure.message)
    except Exception as failure:  # noqa: BLE001
        told.append(type(failure).__name__)

    assert len(told) == 1 and told[0].isprintable() and " surrogate" in told[0]


def test_a_transient_reason_of_any_length_is_a_transient_reason(stub):
    bench, stage, house = FlowBench(refusing(LONG, Retryable)), Stage(stub, inline=False), None
    with pytest.raises(Retryable) as caught:
        bench.execute()
    assert len(caught.value.message) <= 4_096

    stub.reset()
    stage.do = refusing(LONG, Retryable)
    contract = stage.contract()
    assert stage.post(contract, BODY, stage.pay(contract)).status == 503
    assert stage.state(contract) is State.FAILED_TRANSIENT and stage.executions.largest < ITEM_BYTES // 4

    house = HostedHouse(desk=refusing(LONG, Retryable))
    house.begin()
    assert house.settle() == ["retry"]


SHORTENED = {
    "a figure's text": noting(model=HUGE),
    "very many figures": noting(**{f"f{number}": "x" * 1_000 for number in range(1_000)}),
    "a media type": collecting("a", "text/plain; charset=" + "a" * 500_000),
    "a deliverable's media type": attaching(Artifact("a", b"x", "text/plain; charset=" + "a" * 500_000)),
    "a text of progress": lambda task, run: run.progress(5, HUGE) or Outcome({"answer": "x", "score": 1}),
    "progress without a measure": lambda task, run: run.progress(float("nan")) or Outcome({"answer": "x", "score": 1}),
    "an item's content": lambda task, run: run.item(HUGE) or Outcome({"answer": "x", "score": 1}),
    "an item's name": lambda task, run: (
        run.item(Artifact("n" * 900, b"", "text/plain")) or Outcome({"answer": "x", "score": 1})
    ),
    "a delta": lambda task, run: run.delta(HUGE) or Outcome({"answer": "x", "score": 1}),
}


@pytest.mark.parametrize("made", SHORTENED.values(), ids=SHORTENED)
class TestWhatIsShortened:
    def test_the_runtime_door_answers(self, made):
        executed = FlowBench(made).execute()

        assert executed.ok and len(str(dict(executed.facts))) < 30_000

    def test_the_worker_door_delivers_and_is_paid(self, stub, made):
        stub.reset()
        stub.ledger.transactions.clear()
        stage = Stage(stub, inline=False)
        stage.do = made
        contract = stage.contract()

        answer = stage.post(contract, BODY, stage.pay(contract))

        assert answer.status == 200 and stage.charges() == 1
        assert stage.executions.largest < ITEM_BYTES // 4

    def test_a_hosted_execution_completes(self, made):
        house = HostedHouse(desk=made)
        house.begin()

        assert house.settle() == ["completed"]


@pytest.mark.parametrize(
    "made",
    [
        lambda task, run: run.progress("half", "x"),
        lambda task, run: run.progress(1, None),
        lambda task, run: run.delta(5),
        lambda task, run: run.evidence(b"x"),
        lambda task, run: run.evidence("x", None),
        lambda task, run: run.artifact(None, b"x"),
        lambda task, run: run.artifact("a", "x"),
        lambda task, run: run.artifact("a", b"x", None),
        lambda task, run: run.step(5, lambda: 1),
        lambda task, run: run.tool(None),
    ],
)
def test_a_value_of_a_foreign_type_is_a_bug_wherever_the_executor_runs(made):
    """In a test without any door, too: what production would not take, a stand-in does not take either."""
    from piecework.extend.executors import Run

    with pytest.raises((TypeError, ValueError)):
        made(None, Run(remaining_ms=lambda: 1_000))
    house = HostedHouse(desk=lambda task, run: made(task, run) or Outcome(1))
    house.begin()
    assert house.settle() == ["failed"]


def test_a_step_that_no_table_holds_calls_its_model_once_however_often_it_is_asked_again():
    calls = []

    def costly(task, run):
        return Outcome({"answer": run.step("model", lambda: calls.append(1) or HUGE)})

    bench = FlowBench(costly)
    for _ in range(3):
        with pytest.raises(StoredFailure, match="350000 bytes"):
            bench.execute()

    assert len(calls) == 1


@pytest.mark.parametrize(
    ("code", "is_permanent"),
    [
        ("ValidationException", True),
        ("AccessDeniedException", True),
        ("AccessDenied", True),
        ("EntityTooLarge", True),
        ("KMS.DisabledException", True),
        ("UnrecognizedClientException", True),
        ("ProvisionedThroughputExceededException", False),
        ("ThrottlingException", False),
        ("RequestLimitExceeded", False),
        ("TransactionConflictException", False),
        ("TransactionInProgressException", False),
        ("InternalServerError", False),
        ("SlowDown", False),
        ("ExpiredTokenException", False),
        ("ResourceNotFoundException", False),
        ("SomethingNew", False),
    ],
)
def test_what_aws_will_never_take_is_not_called_out_of_reach(code, is_permanent):
    from piecework.aws.failing import aws_errors
    from piecework.aws.transport.failures import ServiceRefused

    with pytest.raises(Exception) as caught, aws_errors("the table"):
        raise ServiceRefused(code, "arn:aws:iam::1:role/x", operation="PutItem")

    assert isinstance(caught.value, Unavailable) is not is_permanent
    assert caught.value.retryable is not is_permanent
    assert ("try again" in caught.value.message) is not is_permanent and "arn:" not in caught.value.message


@pytest.mark.parametrize(("reason", "is_permanent"), [("ValidationError", True), ("ThrottlingError", False)])
def test_a_transaction_is_judged_by_its_reasons(reason, is_permanent):
    from piecework.aws.failing import aws_errors
    from piecework.aws.transport.failures import ServiceRefused

    answer = {"CancellationReasons": [{"Code": "None"}, {"Code": reason, "Message": "Item size has exceeded"}]}
    with pytest.raises(Exception) as caught, aws_errors("the table"):
        raise ServiceRefused("TransactionCanceledException", "cancelled", answer=answer)

    assert caught.value.retryable is not is_permanent


def test_the_reason_is_in_the_log_of_the_operator(caplog):
    from piecework.aws.failing import aws_errors
    from piecework.aws.transport.failures import ServiceRefused

    with pytest.raises(Exception), aws_errors("the table"):  # noqa: B017
        raise ServiceRefused("AccessDenied", "not authorized to PutItem")

    assert "not authorized to PutItem" in caplog.text


def test_a_result_that_no_store_takes_ends_the_task_unpaid_after_one_run(stub):
    from tests.support.fakes import too_large

    stub.reset()
    stub.ledger.transactions.clear()
    stage = Stage(stub, inline=False)
    contract = stage.contract()

    def refuse(*_):
        raise too_large()

    stage.files.put = refuse
    answers = [stage.post(contract, BODY, stage.pay(contract))]
    stage.settle_down(600)
    answers.append(stage.post(contract))

    assert [answer.status for answer in answers] == [500, 500] and len(stage.runs) == 1
    assert answers[0].body["error"] == answers[1].body["error"] and stage.charges() == 0
