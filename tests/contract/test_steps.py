"""One contract for steps: those of every door's tables, and the stand-ins that tests of an executor use."""

import asyncio
from uuid import uuid4

import pytest

from piecework.durable.pieces import Claim, State
from piecework.durable.steps import PieceSteps
from piecework.extend.executors import Refused, Run
from tests.support.fakes import FakeClock, FakePieceTable

NONE_GIVEN = "none given"
LASTING = ["kept in memory", "fake", "results table", "work table", "kernel table"]


@pytest.fixture(params=[NONE_GIVEN, *LASTING])
def a_run(request):
    """Makes run after run of one piece; each is a process of its own."""
    given = {} if request.param == NONE_GIVEN else {"steps": steps_of(request.param, request)}
    return lambda: Run(remaining_ms=lambda: 1_000, **given)


@pytest.fixture(params=LASTING)
def resumed(request):
    """As `a_run`, with steps that a later run must find."""
    steps = steps_of(request.param, request)
    return lambda: Run(remaining_ms=lambda: 1_000, steps=steps)


def steps_of(kind, request):
    if kind == "kept in memory":
        from piecework.testing import KeptSteps

        return KeptSteps()
    claim = Claim(uuid4().hex, "token", "print", after=State.RUNNING)
    return PieceSteps(table_of(kind, request), claim, lambda: FakeClock()() // 1000 + 3600)


def table_of(kind, request):
    if kind == "fake":
        return FakePieceTable(FakeClock())
    from piecework.aws.steps_table import hosted_steps, result_steps, work_steps

    aws = request.getfixturevalue("embedded_aws")
    client, clock = aws.client("dynamodb"), FakeClock()
    if kind == "work table":
        return work_steps(client, aws.new_table("WorkTable"), clock)
    if kind == "kernel table":
        return hosted_steps(client, aws.new_table("KernelTable"), clock)
    return result_steps(client, aws.new_table(), clock)


class Draws:
    """Gives another answer each time."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self) -> str:
        self.drawn += 1
        return f"draw {self.drawn}"


def test_a_name_used_again_is_a_step_of_its_own(a_run):
    run, draw = a_run(), Draws()

    assert [run.step("fetch", draw) for _ in range(3)] == ["draw 1", "draw 2", "draw 3"]


def test_every_use_of_a_name_is_found_by_the_next_run(resumed):
    first, again = Draws(), Draws()
    one = [resumed_step(run, name, first) for run in [resumed()] for name in ("a", "b", "a", "a", "b")]
    two = [resumed_step(run, name, again) for run in [resumed()] for name in ("a", "b", "a", "a", "b")]

    assert one == two == ["draw 1", "draw 2", "draw 3", "draw 4", "draw 5"] and again.drawn == 0


def resumed_step(run, name, draw):
    return run.step(name, draw)


@pytest.mark.parametrize("other", ["fetch#2", "fetch2", "fetch/2", "fetch\x002", "2", "", "fetch 2"])
def test_a_name_that_looks_like_a_second_use_stays_itself(resumed, other):
    run, draw = resumed(), Draws()
    names = ["fetch", "fetch", other, other]
    made = [run.step(name, draw) for name in names]

    again = resumed()
    assert [again.step(name, draw) for name in names] == made == [f"draw {n}" for n in range(1, 5)]


def test_a_run_that_stopped_between_two_uses_goes_on_with_the_second(resumed):
    draw = Draws()
    resumed().step("fetch", draw)

    run = resumed()

    assert [run.step("fetch", draw) for _ in range(2)] == ["draw 1", "draw 2"]


def test_steps_inside_a_step_are_counted_there_because_a_replay_passes_them_over(resumed):
    draw = Draws()

    def whole(run):
        inner = run.step("outer", lambda: [run.step("fetch", draw), run.step("fetch", draw)])
        return [inner, run.step("fetch", draw)]

    made = whole(resumed())

    assert made == [["draw 1", "draw 2"], "draw 3"]
    assert whole(resumed()) == made and draw.drawn == 3


def test_async_steps_of_one_name_are_told_apart_by_the_order_of_their_calls(resumed):
    made = asyncio.run(gathered(resumed(), ["slow", "quick", "slow"]))

    assert made == ["0 slow", "1 quick", "2 slow"]
    assert asyncio.run(gathered(resumed(), ["never asked"] * 3)) == made


async def gathered(run, texts):
    async def fetch(number, text):
        await asyncio.sleep(0.02 if text == "slow" else 0)
        return f"{number} {text}"

    def one(number, text):
        async def asked():
            return await fetch(number, text)

        return run.step("fetch", asked)

    return list(await asyncio.gather(*(one(number, text) for number, text in enumerate(texts))))


def test_a_result_comes_back_as_json_at_once_and_later_alike(a_run):
    given = {"pair": (1, 2), "big": 2**53, "text": "ü"}

    assert a_run().step("s", lambda: given) == {"pair": [1, 2], "big": 2**53, "text": "ü"}


@pytest.mark.parametrize("nothing", [None, {}, [], 0, False, ""])
def test_a_step_that_made_nothing_is_not_run_again(resumed, nothing):
    assert resumed().step("s", lambda: nothing) == nothing
    assert resumed().step("s", lambda: pytest.fail("run again")) == nothing


@pytest.mark.parametrize("result", ["x" * 350_000, object(), float("nan"), {"a": "\ud800"}, {1, 2}, b"bytes"], ids=type)
def test_a_result_that_cannot_be_recorded_is_refused_for_good_and_quotes_nothing(a_run, result):
    with pytest.raises(Refused) as refused:
        a_run().step("s", lambda: result)
    assert not refused.value.retryable and "run.step" in refused.value.message and len(refused.value.message) < 100


def test_the_longest_result_that_is_promised_is_recorded(resumed):
    longest = "x" * 349_998  # with its quotes 350,000 bytes
    resumed().step("s", lambda: longest)

    assert resumed().step("s", lambda: "another") == longest


@pytest.mark.parametrize("name", ["n" * 1_025, "\ud800"], ids=["too long", "a lone surrogate"])
def test_a_name_that_cannot_be_one_is_refused_before_the_step(a_run, name):
    with pytest.raises(Refused, match="name of a step"):
        a_run().step(name, lambda: pytest.fail("run"))


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [("", {}), ("t" * 257, {}), ("\ud800", {}), ("t", {"a": object()}), ("t", {"a": "x" * 1_048_576})],
)
def test_a_tool_call_that_no_door_could_make_is_refused_by_what_is_wrong(a_run, tool_id, arguments):
    with pytest.raises(Refused, match="tool"):
        a_run().tool(tool_id, arguments)


def test_a_door_without_tools_refuses_them_in_the_same_words(a_run):
    with pytest.raises(Refused, match="this door does not have tools"):
        a_run().tool("pay.refund", {"cents": 1})
    with pytest.raises(Refused, match=r"run\.tool cannot be called inside run\.step"):
        a_run().step("s", lambda: pytest.fail("unreachable") if a_run().tool("t") else None)


@pytest.mark.parametrize("kind", ["fake", "results table", "work table", "kernel table"])
def test_a_step_is_kept_for_longer_and_never_for_shorter(kind, request):
    table, now, key = table_of(kind, request), FakeClock()() // 1000, uuid4().hex
    table.record_once(key, b"drafted", now + 10)

    table.keep(key, now + 5, now - 1)
    table.keep("nobody recorded this", now + 99, now + 99)
    assert table.find(key) == b"drafted"
    assert table.find("nobody recorded this") is None
    table.keep(key, now + 11, now - 1)
    assert table.find(key) is None
