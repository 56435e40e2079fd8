"""Worker specification 4.6 and 1.5: what is told of finished items before a task ends, before and after it is paid."""

import contextlib
import hashlib

import pytest

from piecework.errors import Unavailable
from piecework.extend.executors import Artifact, Outcome, Retryable, Run
from piecework.worker.answer.partial_output import INLINE_BYTES, MOST_ITEMS
from piecework.worker.record.states import State
from piecework.worker.stream.streams import DELTA_CHARACTERS, LIVE_BYTES, HiredTasks, Recording, Streams
from tests.support.crash import Crashed
from tests.support.worker.stage import BASE, BODY, Stage
from tests.support.worker.streams import FakeStreamLog

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


PLAN = Artifact("../plan.txt", b"the plan", "text/plain")
CHECKSUM = "sha256:" + hashlib.sha256(b"the plan").hexdigest()
GIVEN_AWAY = {
    "type": "file",
    "name": "plan.txt",
    "mime": "text/plain",
    "size": 8,
    "checksum": CHECKSUM,
    "withheld": True,
}
WITHHELD_PLAN = {"type": "file", "withheld": True}


class Watched(Stage):
    """A stage with streams, whose executor tells of its items and is looked at before and after it ends."""

    def __init__(self, stub, *, unpaid_output=False, **changes):
        self.events = FakeStreamLog()
        ports = {"listener": Recording(self.events, unpaid_output), **changes}
        super().__init__(stub, ports=ports)
        tasks = HiredTasks(self.contracts, self.executions, self.worker.views.bodies, self.worker.texts)
        self.streams = Streams(self.events, tasks, self.clock)
        self.polled, self.seen = [], []

    def read(self, contract):
        batch = self.streams.after(contract.contract_id, self.standing(contract).task_id, "0")
        return [(event.kind, event.data) for event in batch.events]

    def hire(self, executor, *parts, output=None, **changes):
        """A contract whose executor tells these parts; it is polled and its stream is read just before it ends."""
        contract = self.contract(executor, **{"task__output_schema": {}, **changes})

        def tells(task, run):
            for part in parts:
                run.delta(part[1]) if isinstance(part, tuple) else run.item(part)
            self.polled.append(self.get(contract, task.task_id))
            self.seen = self.read(contract)
            return Outcome(output)

        self.do = tells
        self.posted = self.post(contract, BODY, self.pay(contract))
        return contract

    def done(self, contract):
        self.settle_down(180)
        return self.get(contract, self.standing(contract).task_id).body


def test_a_finished_item_is_listed_without_link_or_content_until_it_is_paid(stub):
    stage = Watched(stub)

    contract = stage.hire("slow", PLAN, "a secret text", {"secret": 1}, output={"score": 7})
    done = stage.done(contract)

    (polled,) = stage.polled
    assert polled.status == 200 and 2 <= int(polled.headers["Retry-After"]) <= 30
    body = polled.body
    assert (body["status"], body["final"]) == ("partial", False)
    text, value = ({"type": kind, "withheld": True} for kind in ("text", "json"))
    assert body["output"] == {"type": "multiple", "items": [WITHHELD_PLAN, text, value]}
    assert body["deliverables"] == [{"withheld": True}]
    assert body["poll_url"] == f"{BASE}/tasks/{body['task_id']}" and body["estimated_completion"].endswith("Z")
    assert body["payment"] == {"status": "authorized"} and body["metadata"]["attempt"] == 1
    assert "secret" not in polled.text and "files.example" not in polled.text and "deliverables/" not in polled.text
    assert done["status"] == "completed" and done["deliverables"][0]["checksum"] == CHECKSUM
    assert done["deliverables"][0]["url"].startswith("https://files.example/") and "final" not in done
    assert len(stage.files.objects) == 1  # stored once


def test_a_duplicate_of_a_running_task_is_told_its_finished_items_as_accepted(stub):
    stage = Watched(stub)
    answers = []
    contract = stage.contract("slow", task__output_schema={})

    def tells(task, run):
        run.item(PLAN)
        answers.append(stage.post(contract))
        return Outcome({"score": 7})

    stage.do = tells
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    assert answers[0].status == 202 and answers[0].body["final"] is False
    assert stage.post(contract).status == 200 and stage.charges() == 1


def test_items_stay_listed_and_withheld_while_the_payment_is_not_known(stub):
    stage = Watched(stub)
    stub.say("settle", "pending500", "ok")

    contract = stage.hire("slow", PLAN)
    stage.work_off()
    waiting = stage.get(contract, stage.posted.body["task_id"]).body
    done = stage.done(contract)

    assert stage.state(contract) is State.COMPLETED
    assert waiting["status"] == "partial" and waiting["payment"] == {"status": "settling"}
    assert waiting["output"]["items"] == [WITHHELD_PLAN]
    assert done["status"] == "completed" and "url" in done["deliverables"][0]


def test_stream_withholds_items_and_text_until_the_task_is_paid(stub):
    stage = Watched(stub)

    contract = stage.hire("slow", PLAN, ("delta", "one "), output="one two")
    stage.done(contract)

    assert stage.seen == []
    assert [kind for kind, _ in stage.read(contract)] == ["item", "item", "done"]


def test_stream_shows_output_live_where_the_task_was_paid_before_the_work(stub):
    stage = Watched(stub)

    contract = stage.hire("upfront", PLAN, {"a": 1}, output={"score": 7})
    stage.done(contract)

    live, after = stage.seen, stage.read(contract)
    assert [kind for kind, _ in live] == ["item", "item"]
    assert live[0][1]["url"].startswith("https://files.example/") and "key" not in live[0][1]
    assert live[0][1]["checksum"] == CHECKSUM and live[1][1] == {"type": "json", "content": {"a": 1}}
    assert [kind for kind, _ in after] == ["item", "item", "item", "done"]  # the file is not sent twice
    assert after[0][1]["url"] != live[0][1]["url"]  # linked afresh
    assert after[2][1] == {"type": "json", "content": {"score": 7}}


def test_polling_shows_finished_items_whole_where_the_task_was_paid_before_the_work(stub):
    stage = Watched(stub)
    long = "x" * (INLINE_BYTES + 1)

    stage.hire("upfront", PLAN, long, {"a": 1}, output={"score": 7})
    stage.settle_down(60)

    body = stage.polled[0].body
    file, *values = body["output"]["items"]
    assert body["status"] == "partial" and body["payment"]["status"] == "settled"
    assert file["url"].startswith("https://files.example/") and "withheld" not in file
    assert values == [{"type": "text", "content": long}, {"type": "json", "content": {"a": 1}}]
    assert body["deliverables"][0]["expires_at"]


def test_stream_shows_unpaid_output_but_no_file_where_the_operator_allows_it(stub):
    stage = Watched(stub, unpaid_output=True)

    contract = stage.hire("slow", PLAN, {"a": 1}, output={"score": 7})
    stage.done(contract)

    assert stage.seen == [("item", GIVEN_AWAY), ("item", {"type": "json", "content": {"a": 1}})]
    assert stage.polled[0].body["output"]["items"][1] == {"type": "json", "withheld": True}
    after = stage.read(contract)
    assert [kind for kind, _ in after] == ["item", "item", "item", "item", "done"]
    assert "url" not in after[0][1] and after[2][1]["url"].startswith("https://files.example/")


def test_a_text_that_was_streamed_live_is_only_completed_at_the_end(stub):
    stage = Watched(stub)

    contract = stage.hire("upfront", ("delta", "one "), ("delta", "two"), output="one two three")
    stage.done(contract)

    deltas = [data for kind, data in stage.read(contract) if kind == "output"]
    assert [kind for kind, _ in stage.seen] == ["output", "output"]
    assert [delta["index"] for delta in deltas] == [0, 1, 2]
    assert "".join(delta["delta"] for delta in deltas) == "one two three"


def test_live_output_that_is_too_long_for_an_event_comes_at_the_end(stub):
    stage = Watched(stub)
    text = "x" * (DELTA_CHARACTERS + 1)

    contract = stage.hire("upfront", ("delta", text), {"long": "x" * LIVE_BYTES}, ("delta", "late"), output=text)
    stage.done(contract)

    assert stage.seen == [("output", {"index": 1, "delta": "late"})]
    deltas = [data for kind, data in stage.read(contract) if kind == "output"][1:]
    assert [delta["index"] for delta in deltas] == [0, 1] and "".join(delta["delta"] for delta in deltas) == text


def test_a_text_that_became_another_one_is_sent_anew_from_index_0(stub):
    stage = Watched(stub)

    contract = stage.hire("upfront", ("delta", "a draft"), output="the text")
    stage.done(contract)

    deltas = [data for kind, data in stage.read(contract) if kind == "output"]
    assert deltas == [{"index": 0, "delta": "a draft"}, {"index": 0, "delta": "the text"}]


def test_a_runner_that_takes_over_lists_its_own_items_only(stub):
    stage = Watched(stub)
    contract = stage.contract("slow", task__output_schema={})
    listed = []

    def tells(task, run):
        run.item(Artifact(f"part {len(stage.runs)}.txt", b"x", "text/plain"))
        listed.append([item["name"] for item in stage.standing(contract).attempt.items])
        if len(stage.runs) == 1:
            raise Crashed
        return Outcome({"score": 7})

    stage.do = tells
    stage.post(contract, BODY, stage.pay(contract))
    with contextlib.suppress(Crashed):
        stage.work_off()
    stage.clock.move(16)
    stage.settle_down(60)

    assert listed == [["part 1.txt"], ["part 2.txt"]]
    done = stage.get(contract, stage.standing(contract).task_id).body
    assert [entry["name"] for entry in done["deliverables"]] == ["part 2.txt"]


def test_an_attempt_that_failed_leaves_no_items(stub):
    stage = Watched(stub)
    contract = stage.contract("slow", task__output_schema={})

    def fails(task, run):
        run.item(PLAN)
        raise Retryable("the model is busy")

    stage.do = fails
    stage.post(contract, BODY, stage.pay(contract))
    stage.work_off()

    body = stage.get(contract, stage.standing(contract).task_id).body
    assert body["status"] == "failed" and "deliverables" not in body and stage.standing(contract).attempt.items == ()


def test_items_that_cannot_be_told_never_fail_the_run(stub):
    stage = Watched(stub)
    lost = stage.executions.add_item

    def out_of_reach(*_):
        stage.executions.add_item = lost
        raise Unavailable("throttled")

    stage.executions.add_item = out_of_reach
    contract = stage.hire("slow", PLAN, object(), *[{"n": n} for n in range(MOST_ITEMS + 1)], output={"score": 7})
    done = stage.done(contract)

    assert len(stage.polled[0].body["output"]["items"]) == MOST_ITEMS
    assert done["status"] == "completed" and done["deliverables"][0]["name"] == "plan.txt"


def test_files_told_early_keep_their_names_and_places(stub):
    stage = Watched(stub)
    contract = stage.contract("slow", task__output_schema={})
    listed = []

    def tells(task, run):
        run.artifact("a.txt", b"1", "text/plain")
        run.item(Artifact("a.txt", b"2", "text/plain"))
        listed.extend(stage.standing(contract).attempt.items)
        run.artifact("a.txt", b"3", "text/plain")
        return Outcome({"score": 7})

    stage.do = tells
    stage.post(contract, BODY, stage.pay(contract))
    done = stage.done(contract)["deliverables"]

    assert [entry["name"] for entry in done] == ["a.txt", "a (2).txt", "a (3).txt"]
    assert [(entry["name"], entry["checksum"]) for entry in listed] == [("a (2).txt", done[1]["checksum"])]
    assert [key.rpartition("/")[2] for key in stage.files.objects] == ["000", "001", "002"]


def test_where_nobody_listens_an_item_is_attached_and_a_delta_is_only_checked():
    run = Run(remaining_ms=lambda: 1_000)

    run.item(PLAN)
    run.item({"a": 1})
    run.delta("one ")

    assert run.collected_artifacts == [PLAN]
    with pytest.raises(TypeError):
        run.delta(b"bytes")
