"""One live run at the runtime and the kernel door: whoever was taken over begins no step and tells nothing more."""

import asyncio

import pytest

from piecework.durable.pieces import LEASE_MS, Claim
from piecework.errors import Unavailable
from piecework.extend.executors import Outcome
from tests.support.kernel.hosted_stage import HostedHouse
from tests.support.runtime.flows import FlowBench, answering

FREEZE = LEASE_MS / 1000 + 1


class Frozen:
    """A run that lies frozen past its lease, while another one does the work; then it goes on as if nothing was."""

    def __init__(self, after) -> None:
        self.after, self.begun, self.runs = after, [], 0
        self.meanwhile = lambda: None

    def __call__(self, task, run):
        self.runs += 1
        if self.runs > 1:
            return Outcome({"answer": "by the second"})
        run.step("first", lambda: self.begun.append("first"))
        self.meanwhile()
        made = self.after(run, self.begun)
        return made or Outcome({"answer": "by the first"})


def takes_a_step(run, begun):
    run.step("second", lambda: begun.append("second"))


def takes_an_async_step(run, begun):
    async def second():
        begun.append("second")

    async def stepping():
        async with asyncio.TaskGroup() as group:
            group.create_task(run.step("second", second))

    asyncio.run(stepping())


def swallows_everything(run, begun):
    try:
        run.step("second", lambda: begun.append("second"))
    except Exception:  # noqa: BLE001  # as careless executors do
        begun.append("went on")
    run.step("third", lambda: begun.append("third"))


def tells(run, begun):
    run.progress(50, "half")
    begun.append("told")


def attaches(run, begun):
    run.artifact("a.txt", b"x")
    begun.append("attached")


EFFECTS = [takes_a_step, takes_an_async_step, swallows_everything, tells, attaches]


def frozen_bench(effect) -> tuple[FlowBench, Frozen]:
    work = Frozen(effect)
    bench = FlowBench(work)

    def meanwhile():
        bench.clock.move(FREEZE)
        assert b"by the second" in bench.execute().body

    work.meanwhile = meanwhile
    return bench, work


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_piece_that_was_taken_over_is_left_alone_by_its_first_run_whose_caller_gets_the_one_answer(effect):
    bench, work = frozen_bench(effect)

    executed = bench.execute(60)

    assert b"by the second" in executed.body and executed.facts["replayed"]
    assert work.begun == ["first"] and work.runs == 2


def test_a_run_whose_lease_lapsed_while_nobody_came_goes_on_under_a_new_one():
    bench, steps = None, []

    def slow(task, run):
        for number in range(3):
            run.step(f"s{number}", lambda number=number: steps.append(number) or bench.clock.move(FREEZE))
        return Outcome({"answer": "x"})

    bench = FlowBench(slow)

    assert b'"x"' in bench.execute(90).body and steps == [0, 1, 2]


def test_a_lapsed_run_takes_its_piece_back_before_the_next_step_so_that_nobody_else_begins_it():
    bench, seen = None, []

    def slow(task, run):
        bench.clock.move(FREEZE)
        run.step("s", lambda: seen.append(bench.table.read(key()).lease_until_ms - bench.clock()))
        return Outcome({"answer": "x"})

    def key():
        return next(iter(bench.table.items))

    bench = FlowBench(slow)
    bench.execute(90)

    assert seen == [LEASE_MS]


def test_no_step_begins_while_nobody_can_say_whose_the_piece_is():
    bench, begun = None, []

    def out_of_reach(*_):
        raise Unavailable("the results table is out of reach; try again")

    def slow(task, run):
        bench.clock.move(FREEZE)
        bench.table.renew = out_of_reach
        run.progress(1, "a hint may be lost")
        run.step("s", lambda: begun.append(1))
        return Outcome({"answer": "x"})

    bench = FlowBench(slow)

    with pytest.raises(Unavailable):
        bench.execute(90)
    assert begun == []


def test_a_run_that_holds_its_lease_asks_without_a_request():
    asked = []

    def steady(task, run):
        for number in range(5):
            run.progress(number, "on")
            run.step(f"s{number}", lambda: bench.clock.move(2))
        return Outcome({"answer": "x"})

    bench = FlowBench(steady)
    renew = bench.table.renew
    bench.table.renew = lambda *args: asked.append(args) or renew(*args)
    bench.execute(60)

    assert asked == []


def test_a_piece_of_the_executor_that_ended_is_recorded_as_before():
    assert b'"x"' in FlowBench(answering()).execute().body


# The kernel door: hosted runs.


def frozen_house(effect) -> tuple[HostedHouse, Frozen, list[str]]:
    work, came = Frozen(effect), []
    house = HostedHouse(desk=work)
    house.begin()
    execution_id = house.wakes.pop(0)

    def meanwhile():
        house.now += 16_000
        came.append(house.look(execution_id))

    work.meanwhile = meanwhile
    came.append(house.look(execution_id))
    return house, work, came


def calls_a_tool(run, begun):
    begun.append(run.tool("geo.lookup", {"q": 1}))


def ends(run, begun):
    return Outcome({"answer": "by the first"})


def fails(run, begun):
    raise RuntimeError("a bug that came of the freeze")


@pytest.mark.parametrize("effect", [*EFFECTS, calls_a_tool, ends, fails])
def test_a_hosted_run_that_was_taken_over_begins_nothing_and_ends_nothing(effect):
    house, work, came = frozen_house(effect)
    [execution_id] = house.leases.rows

    assert came == ["completed", "lost"]
    assert work.begun == ["first"]
    assert house.kernel.get(execution_id).output == {"answer": "by the second"}
    assert "step.created" not in house.types(execution_id)


@pytest.mark.parametrize("effect", [takes_a_step, calls_a_tool, fails])
def test_a_hosted_run_whose_second_run_still_works_does_not_act_beside_it(effect):
    """The second run has taken over and not ended yet."""
    work = Frozen(effect)
    house = HostedHouse(desk=work)
    house.begin()
    execution_id = house.wakes.pop(0)

    def meanwhile():
        house.now += 16_000
        assert house.leases.claim(execution_id, "another", house.now, house.now + 15_000) == 2

    work.meanwhile = meanwhile

    assert house.look(execution_id) == "lost"
    assert work.begun == ["first"]
    assert house.types(execution_id) == ["execution.created", "execution.started"]


def test_a_delta_and_an_item_of_a_run_that_was_taken_over_are_not_told():
    from piecework.extend.executors import Run
    from piecework.extend.right import Right, RightLost

    told = []
    right = Right(lambda until_ms: None, 0, lambda: 10, ends_ms=5)
    run = Run(
        remaining_ms=lambda: 1,
        right=right,
        on_delta=told.append,
        on_item=lambda part, artifacts: told.append(part),
        on_progress=lambda pct, text: told.append(text),
    )

    for tell in (lambda: run.delta("t"), lambda: run.item("i"), lambda: run.progress(1, "p")):
        with pytest.raises(RightLost):
            tell()
    assert told == []


def test_a_claim_holds_its_right_to_run():
    bench = FlowBench(answering())
    claim = bench.pieces.claim("k", "f")
    assert isinstance(claim, Claim)
    bench.clock.move(FREEZE)
    bench.pieces.claim("k", "f")

    from piecework.extend.right import RightLost

    with pytest.raises(RightLost):
        claim.right.check()
