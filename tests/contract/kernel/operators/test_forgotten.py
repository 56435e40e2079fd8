"""An execution that is forgotten on request: what it was about is erased, wherever a process dies meanwhile."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from piecework.edge.roles import parse_roles
from piecework.errors import Unavailable
from piecework.kernel.errors import Conflict, NotFound
from piecework.kernel.model.commands import Intent
from piecework.kernel.model.evolve import fold
from piecework.kernel.model.ports.executions import Filter, VersionConflict
from piecework.kernel.model.state import Forgotten
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.fakes import new_store
from tests.support.kernel.payloads import check_payloads
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

GATES = """
    rules: [{id: refund, when: {tool_id: pay.refund}, then: {decision: require_approval}}]
    default: {decision: allow}
"""
MIA = parse_roles("").caller("mia")
SECRET = "what-nobody-may-know"
LONG = SECRET * 5_100  # does not lie in the table


class Dying:
    """A client that dies when one request is done: before it would be the same as after the one that came before."""

    def __init__(self, client: Any) -> None:
        self._client, self.left = client, -1

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            if name == "put_object" or self.left < 0:
                return getattr(self._client, name)(**given)
            self.left -= 1
            dies = self.left < 0
            answer = getattr(self._client, name)(**given)
            if dies:
                raise Unavailable("the process is killed")
            return answer

        return call


@pytest.fixture(params=["fake", "dynamodb"])
def stage(request):
    clock = FakeClock(START_MS)
    if request.param == "fake":
        return KernelStage(clock=clock, store=new_store(clock), policy=a_policy(GATES))
    aws = request.getfixturevalue("embedded_aws")
    dying = Dying(aws.client("dynamodb"))
    store = new_tables(aws, clock, client=dying)
    values = store.executions._values
    s3 = Dying(aws.client("s3"))
    values._s3 = lambda: s3
    stage = KernelStage(clock=clock, store=store, policy=a_policy(GATES))
    stage.aws, stage.dying = aws, (dying, s3)
    return stage


def told(stage: KernelStage, texts: Sequence[str] = (SECRET, LONG)) -> str:
    """An execution that has ended, with everything that one can have, once for each text."""
    labels = {"who": texts[0]}  # a long one has a row of its own
    execution = stage.kernel.create("desk", {"text": LONG}, labels, "ada").execution.id
    line = stage.agent("desk", "one", "desk")
    [session] = [one for one in line.of("execution.assigned") if one["execution_id"] == execution]
    ids = (execution, session["session_id"])
    for number, text in enumerate(texts):
        call = Intent("invoke_tool", "pay.refund", {"text": text}, True, idempotency_key=f"{number}")
        step = stage.kernel.intent(*ids, call, "desk")["step_id"]
        said = {"step_id": step, "approved": True, "reason": SECRET}
        stage.kernel.signal(execution, "step.approve", said, MIA)
        stage.kernel.step_result(*ids, step, True, {"text": text}, "", "desk")
        stage.kernel.signal(execution, "go", {"text": text}, MIA)
        step = stage.kernel.intent(*ids, Intent("invoke_tool", "notes.find", {"text": text}, True), "desk")["step_id"]
        stage.kernel.step_result(*ids, step, False, None, text, "desk")
    stage.kernel.intent(*ids, Intent("complete", output={"text": LONG}, has_output=True), "desk")
    line.close()
    return execution


def forget(stage: KernelStage, execution: str) -> Any:
    return stage.kernel.forget(execution, "the customer asks for it", "ophelia")


def left(stage: KernelStage) -> str:
    """Everything that is stored."""
    if not hasattr(stage, "aws"):
        return str(stage.store.kept) + str(stage.store.boxes)
    s3 = stage.aws.client("s3")
    objects = s3.list_objects_v2(Bucket=stage.store.bucket).get("Contents", [])
    rows = stage.aws.client("dynamodb").scan(TableName=stage.store.table)
    assert "LastEvaluatedKey" not in rows
    return str(rows["Items"]) + str([one["Key"] for one in objects])


def as_it_is(stage: KernelStage, execution: str) -> Callable[[], None]:
    """What puts everything of an execution back as it is now."""
    dynamodb, s3, store = stage.aws.client("dynamodb"), stage.aws.client("s3"), stage.store
    rows = [row for row in dynamodb.scan(TableName=store.table)["Items"] if row["pk"]["S"] == f"EXEC#{execution}"]
    places = [one["Key"] for one in s3.list_objects_v2(Bucket=store.bucket)["Contents"]]
    objects = {place: s3.get_object(Bucket=store.bucket, Key=place)["Body"].read() for place in places}

    def put_back() -> None:
        for place, body in objects.items():
            s3.put_object(Bucket=store.bucket, Key=place, Body=body)
        for row in rows:
            dynamodb.put_item(TableName=store.table, Item=row)

    return put_back


def test_nothing_that_people_or_tools_have_said_is_left(stage):
    execution = told(stage)
    assert SECRET in left(stage)

    view = forget(stage, execution)

    assert SECRET not in left(stage) and f"kernel/{execution}" not in left(stage)
    assert view.execution.forgotten == Forgotten(START_MS, "ophelia", "the customer asks for it", complete=True)
    assert (view.input, view.output, view.execution.labels) == (None, None, {})
    assert stage.kernel.approvals_page("", 10, answered=True) == ([], "")
    assert [row.labels for row in stage.kernel.executions(Filter(agent_id="desk"), "", 10)[0]] == [{}]


def test_the_log_keeps_types_times_and_names_and_folds_as_before(stage):
    execution = told(stage)
    before, state = stage.kernel.events(execution, 0, 1_000), stage.state(execution)

    forget(stage, execution)

    after = stage.kernel.events(execution, 0, 1_000)
    assert [(one.id, one.type, one.at_ms, one.by, one.step_id) for one in after] == [
        (one.id, one.type, one.at_ms, one.by, one.step_id) for one in before
    ]
    check_payloads(after)
    folded = fold(after)
    assert (folded.status, folded.sequence, folded.worked_by) == (state.status, state.sequence, state.worked_by)
    assert (folded.step_count, folded.created_at_ms, folded.ended_at_ms) == (
        state.step_count,
        state.created_at_ms,
        state.ended_at_ms,
    )


def test_the_first_who_asks_stays_named_and_a_repeat_changes_nothing(stage):
    execution = told(stage)
    first = forget(stage, execution)
    kept = left(stage)
    stage.clock.move(60)

    again = stage.kernel.forget(execution, "another reason", "olga")

    assert again.execution.forgotten == first.execution.forgotten
    assert left(stage) == kept


def test_what_goes_on_is_not_forgotten_nor_what_nobody_has(stage):
    execution = stage.kernel.create("desk", SECRET, {}).execution.id

    with pytest.raises(Conflict, match="has not ended"):
        forget(stage, execution)
    with pytest.raises(NotFound):
        forget(stage, "unknown")

    assert stage.kernel.get(execution).input == SECRET


def test_a_forgotten_execution_cannot_be_run_again_and_its_approvals_are_gone(stage):
    execution = told(stage)
    step = stage.kernel.approvals_page("", 10, answered=True)[0][0].step_id
    forget(stage, execution)

    with pytest.raises(Conflict, match="forgotten"):
        stage.kernel.again(execution)
    with pytest.raises(NotFound):
        stage.kernel.approval(execution, step)


def test_what_it_was_once_more_and_that_it_has_failed_stay(stage):
    first = told(stage)
    second = stage.kernel.again(first).execution.id
    stage.clock.move(4_000)
    assert stage.kernel.get(second).error

    view = forget(stage, second)

    assert (view.again_of, view.error, view.execution.status.value) == (first, None, "failed")


def test_the_retention_ends_it_as_any_other(stage):
    execution = told(stage)
    forget(stage, execution)
    stage.clock.move(30 * 86_400)

    stage.sweep()

    with pytest.raises(NotFound):
        stage.kernel.get(execution)
    assert stage.kernel.events(execution, 0, 10) == []
    assert execution not in str([row.id for row in stage.kernel.executions(Filter(), "", 50)[0]])


def test_a_note_is_not_written_over_what_has_changed_since_it_was_read(stage):
    execution = told(stage)
    read = stage.state(execution)
    forget(stage, execution)

    with pytest.raises(VersionConflict):
        stage.store.executions.note_forgotten(read, Forgotten(0, "", "late"))


def test_a_request_that_has_no_more_time_leaves_the_rest_to_a_repeat(stage):
    execution = told(stage)
    erase = type(stage.store.executions).erase

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(stage.store.executions), "erase", lambda self, id_, _: erase(self, id_, lambda: False))
        view = forget(stage, execution)
    assert view.execution.forgotten.complete is False and view.input is None

    assert forget(stage, execution).execution.forgotten.complete is True
    assert SECRET not in left(stage)


@pytest.mark.parametrize("stage", ["dynamodb"], indirect=True)
@pytest.mark.parametrize(("which", "rest"), [(0, "repeat"), (1, "repeat"), (0, "retention")])
def test_wherever_its_process_dies_a_repeat_leaves_nothing(stage, which, rest):
    dying, execution = stage.dying[which], told(stage, [LONG])
    put_back = as_it_is(stage, execution)
    for number in count():
        dying.left = number
        try:
            forget(stage, execution)
            has_died = False
        except Unavailable:
            has_died = True
        is_over, dying.left = dying.left >= 0, -1
        assert has_died or is_over  # nobody takes a death for an answer

        if rest == "repeat":
            assert forget(stage, execution).execution.forgotten.complete is True
        else:
            stage.store.executions.forget(execution)
        assert SECRET not in left(stage) and f"kernel/{execution}" not in left(stage)
        if is_over:
            break
        put_back()
    assert number > 5
