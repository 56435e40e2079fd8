"""Every record that a flow writes is, byte for byte, the one that the code of 806a4b0 wrote: fleets mix both.

The fixture has for each flow the members of its first record, then what each next one changes. Where a run draws at
random, the first such text of a flow is <1>, the next <2>, and so on.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from piecework.aws.attributes import plain, typed
from piecework.errors import Unprocessable
from piecework.extend.executors import Outcome, Refused, Retryable
from piecework.jsons import canonical
from piecework.worker.record.states import State
from piecework.worker.store.executions_table import from_item, to_item
from tests.support.worker.door_fakes import FakeExecutions
from tests.support.worker.stage import BODY, Stage, score, stub_facilitator

PRICE = 5_000_000  # 5 USDC in atomic units
WRITTEN = json.loads((Path(__file__).parents[2] / "support" / "stored" / "worker_written_806a4b0.json").read_text())
RANDOM = re.compile(r"0x[0-9a-f]{64,}|(?<![0-9a-f])[0-9a-f]{16}(?:[0-9a-f]{16})?(?![0-9a-f])|task_[0-9A-Z]{26}")
HOUR, DAY = 3_600, 86_400


class WritingExecutions(FakeExecutions):
    """Notes each record as the table would store it."""

    def _put(self, before, after):
        self.written = [*getattr(self, "written", []), typed(to_item(after, "w"))]
        super()._put(before, after)


def fail(error):
    def act(task, run):
        raise error("not this time")

    return act


def say(stage, settle="ok", do=score):
    stage.stub.say("settle", *settle.split())
    stage.do = do


def paid(stage, contract):
    stage.post(contract, BODY, stage.pay(contract))


def queued(stage, contract):
    paid(stage, contract)
    stage.work_off()


def told(stage, contract):
    stage.do = lambda task, run: [run.item({"part": 1}), Outcome({"score": 7})][1]
    queued(stage, contract)


def partial(stage, contract):
    stage.do = lambda task, run: Outcome({"score": 7}, is_partial=True)
    paid(stage, contract)


def handed_over(stage, contract):
    def slow(task, run):
        stage.clock.move(16)
        run.step("late", lambda: 1)
        return Outcome({"score": 7})

    stage.do = slow
    paid(stage, contract)
    stage.do = score
    stage.work_off()


def taken_over(stage, contract):
    """Both runs of the attempt die; the third look ends it."""

    class Dies(BaseException):
        pass

    paid(stage, contract)
    stage.do = fail(Dies)
    for _ in range(2):
        with pytest.raises(Dies):
            stage.work_off()
        stage.clock.move(60)
        stage.queue.append(contract.contract_id)
    with pytest.raises(Dies):
        stage.work_off()
    stage.clock.move(60)
    stage.sweep()


def not_taken(stage, contract):
    say(stage, "fail:insufficient_funds ok")
    paid(stage, contract)


def not_taken_then_paid(stage, contract):
    not_taken(stage, contract)
    paid(stage, contract)


def never_taken(stage, contract):
    say(stage, "fail:insufficient_funds")
    for _ in range(5):
        paid(stage, contract)


def reconciled(stage, contract):
    paid(stage, contract)
    stage.settle_down(600)


def charged_without_an_answer(stage, contract):
    say(stage, "lost-cut ok")
    reconciled(stage, contract)


def not_charged_without_an_answer(stage, contract):
    say(stage, "cut ok")
    reconciled(stage, contract)


def pending(stage, contract):
    say(stage, "pending500 ok")
    reconciled(stage, contract)


def not_sent(stage, contract):
    say(stage, "401 ok")
    reconciled(stage, contract)


def never_sent(stage, contract):
    say(stage, "401")
    paid(stage, contract)
    stage.settle_down(HOUR)


def unresolved(stage, contract):
    say(stage, "cut")
    stage.stub.say("rpc", "500")
    stage.stub.say("verify", "ok", "500")
    paid(stage, contract)
    stage.settle_down(3 * HOUR)


def lapsed(stage, contract):
    class Dies(BaseException):
        pass

    def dies(*arguments):
        raise Dies

    real = stage.worker.charging.facilitator
    stage.worker.charging.__dict__["facilitator"] = type("Dying", (), {"settle": dies, "verify": real.verify})
    with pytest.raises(Dies):
        paid(stage, contract)
    stage.worker.charging.__dict__["facilitator"] = real
    stage.settle_down(600)


def retried(stage, contract):
    say(stage, do=fail(Retryable))
    paid(stage, contract)
    stage.do = score
    stage.post(contract)


def lapsed_then_paid(stage, contract):
    say(stage, do=fail(Retryable))
    paid(stage, contract)
    stage.clock.move(HOUR)
    stage.do = score
    paid(stage, contract)


def exhausted(stage, contract):
    say(stage, do=fail(Retryable))
    paid(stage, contract)
    stage.post(contract)
    stage.post(contract)


def refused(stage, contract):
    say(stage, do=fail(Refused))
    paid(stage, contract)


def other_input(stage, contract):
    say(stage, do=fail(Unprocessable))
    paid(stage, contract)
    stage.do = score
    stage.post(contract, {"brief": "another"}, stage.pay(contract))


def timed_out(stage, contract):
    paid(stage, contract)
    stage.clock.move(DAY + 1)
    stage.sweep()


def upfront_not_taken_then_paid(stage, contract):
    say(stage, "fail:insufficient_funds ok")
    queued(stage, contract)
    queued(stage, contract)


def upfront_failed(stage, contract):
    say(stage, do=fail(Refused))
    queued(stage, contract)


FLOWS = {
    "paid": (paid, "probe"),
    "queued": (queued, "slow"),
    "told": (told, "slow"),
    "partial": (partial, "probe"),
    "handed over": (handed_over, "probe"),
    "taken over": (taken_over, "slow"),
    "not taken": (not_taken, "probe"),
    "not taken, then paid": (not_taken_then_paid, "probe"),
    "never taken": (never_taken, "probe"),
    "charged without an answer": (charged_without_an_answer, "probe"),
    "not charged without an answer": (not_charged_without_an_answer, "probe"),
    "pending": (pending, "probe"),
    "not sent": (not_sent, "probe"),
    "never sent": (never_sent, "probe"),
    "unresolved": (unresolved, "probe"),
    "lapsed": (lapsed, "probe"),
    "retried": (retried, "probe"),
    "authorization lapsed, then paid": (lapsed_then_paid, "probe"),
    "exhausted": (exhausted, "probe"),
    "refused": (refused, "probe"),
    "other input": (other_input, "probe"),
    "timed out": (timed_out, "slow"),
    "paid before": (queued, "upfront"),
    "paid before, told": (told, "upfront"),
    "paid before, not sent": (not_sent, "upfront"),
    "paid before, not taken, then paid": (upfront_not_taken_then_paid, "upfront"),
    "paid before, failed": (upfront_failed, "upfront"),
}


@pytest.fixture(scope="module")
def stub():
    with stub_facilitator() as running:
        yield running


def written_by(stub, name):
    """The items that a flow writes, with what was drawn at random numbered in its order."""
    stub.reset()
    stub.ledger.transactions.clear()
    executions, (act, executor) = WritingExecutions(), FLOWS[name]
    stage = Stage(stub, ports={"executions": executions}, with_chain=name != "unresolved")
    stage.executions.due = stage.due
    changes = {"callbacks__webhook_url": "https://seeker.example/hooks"} if name == "paid" else {}
    changes |= {"terms__accept_partial": True} if name == "partial" else {}
    act(stage, stage.contract(executor, contract_id="ctr_" + re.sub("[^a-z]", "_", name), **changes))
    text, places = json.dumps(executions.written), {}
    return json.loads(RANDOM.sub(lambda found: places.setdefault(found[0], f"<{len(places) + 1}>"), text))


def flat(item):
    """An item's members beside those of its record."""
    record = json.loads(item["record"]["S"])
    assert item["record"]["S"] == canonical(record).decode()
    return {**{f"record.{name}": value for name, value in record.items()}, **item, "record": None}


def changes_of(items):
    """The members of the first item, then what each changes in the one before; null where it has none."""
    rows = [{}, *map(flat, items)]
    return [
        {name: now.get(name) for name in sorted({*before, *now}) if before.get(name, ...) != now.get(name)}
        for before, now in pairwise(rows)
    ]


def items_of(changes):
    """The items that `changes_of` was made of."""
    row = {}
    for change in changes:
        row |= change
        record = {name.removeprefix("record."): value for name, value in row.items() if name.startswith("record.")}
        own = {name: value for name, value in row.items() if not name.startswith("record.") and value is not None}
        yield own | {"record": {"S": canonical(record).decode()}}


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_writes_the_records_that_it_always_wrote_and_what_its_payment_authorizes(stub, name):
    first, *later = WRITTEN[name]

    assert changes_of(written_by(stub, name)) == [first | {"record.atomic": PRICE}, *later]


@pytest.mark.parametrize("name", FLOWS)
def test_each_record_is_read_and_written_again_as_it_was(name):
    for item in items_of(WRITTEN[name]):
        assert typed(to_item(from_item(plain(item)), "w")) == item


def test_the_flows_write_records_in_every_state():
    states = {item["state"]["S"] for changes in WRITTEN.values() for item in items_of(changes)}

    assert states == set(State) - {State.NONE}
