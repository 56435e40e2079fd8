"""Watching an execution through the operator's door: what comes when, to whom, and what it costs."""

import asyncio
import json
import re
import threading
from collections import Counter

import pytest

from local.gateway.lambdas.variables import ROOT
from ops.kernel_streams.serving import OPENERS, THREADS, request_of
from piecework.edge.roles import Caller
from piecework.ops.door import Asked
from piecework.ops.kernel import watching
from piecework.ops.kernel.watching import GAPS, HEARTBEAT_SECONDS, LIFE_SECONDS, Watch
from piecework.ops.kernel_routes import KERNEL
from tests.support.kernel.desk import GATED, NamedDesk
from tests.support.kernel.policies import a_policy
from tests.support.ops.kernel import KernelOps
from tests.support.ops.streams import SECONDS, Reader

MANY = {f"p{number}": "1" for number in range(200)}
PRIVATE = "rules: [{id: letters, when: {tool_id: mail.send}, then: {decision: require_approval, private: true}}]"


@pytest.fixture
def ops():
    return KernelOps()


@pytest.fixture
def work(ops):
    return ops.desk.work()


def path_of(work):
    return f"{KERNEL}/executions/{work.id}/stream"


def reader(ops, work, name="viewer", **query):
    return Reader(ops.streaming.app, path_of(work), name, **query)


def sequences(events):
    return [event["id"] for event in events]


def test_the_log_comes_as_it_is_and_goes_on_as_it_happens(ops, work):
    known = work.desk.events(work.id)

    async def watched():
        stream = await reader(ops, work).open()
        there = [await stream.event() for _ in known]
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(work.step, GATED)
        began = loop.time()
        news = [await stream.event() for _ in range(3)]
        waited = loop.time() - began
        await asyncio.to_thread(work.desk.cancel, work.id)
        return stream, there, news, waited, await stream.rest()

    stream, there, news, waited, end = asyncio.run(watched())

    told = [event["data"] for event in (*there, *news, *end)]
    assert told == work.desk.events(work.id)
    assert waited < 1.5
    assert end[-1]["type"] == "execution.cancelled"
    assert stream.headers["content-type"] == "text/event-stream" and stream.headers["cache-control"] == "no-store"


def test_who_comes_again_with_the_last_id_misses_none_and_gets_none_twice(ops, work):
    known = work.desk.events(work.id)

    async def watched():
        first = await reader(ops, work).open()
        seen = [await first.event() for _ in known]
        await first.leave()
        await asyncio.to_thread(work.step, GATED)
        await asyncio.to_thread(work.desk.cancel, work.id)
        second = await reader(ops, work).open(last_event_id=str(seen[-1]["id"]))
        return seen + await second.rest()

    events = asyncio.run(watched())

    assert sequences(events) == [event["sequence"] for event in work.desk.events(work.id)]


def test_after_sequence_goes_before_the_last_id(ops, work):
    work.desk.cancel(work.id)
    last = work.desk.events(work.id)[-1]["sequence"]

    async def watched():
        return await (await reader(ops, work, after_sequence=last - 1).open(last_event_id="0")).rest()

    assert sequences(asyncio.run(watched())) == [last]


def test_an_end_that_the_reader_knows_is_204(ops, work):
    work.desk.cancel(work.id)
    last = work.desk.events(work.id)[-1]["sequence"]

    assert ops.ask("viewer", "GET", path_of(work), after_sequence=str(last)).status == 204


@pytest.mark.parametrize(
    ("name", "query", "status", "code"),
    [
        ("", {}, 401, "unauthorized"),
        ("shop", {}, 401, "unauthorized"),
        ("agent", {}, 403, "forbidden"),
        ("viewer", {"after_sequence": "-1"}, 400, "bad_request"),
        ("", MANY, 401, "unauthorized"),
        ("viewer", MANY, 400, "bad_request"),
        ("viewer", {"after_sequence": "9" * 40}, 400, "bad_request"),
        ("viewer", {"what": "1"}, 400, "bad_request"),
    ],
)
def test_what_is_refused_is_refused_before_the_first_frame_in_the_doors_own_shape(ops, work, name, query, status, code):
    answer = ops.ask(name, "GET", path_of(work), **query)

    assert (answer.status, answer.body["code"]) == (status, code)
    assert [line["status"] for line in ops.lines.outcomes] == [status]


def test_an_unknown_execution_and_another_path_are_404(ops):
    for path in (f"{KERNEL}/executions/nope/stream", "/ops/status/stream", f"{KERNEL}/executions/stream"):
        assert ops.ask("viewer", "GET", path).status == 404, path


def test_a_path_behind_a_base_path_is_found(ops, work):
    async def watched():
        stream = await Reader(ops.streaming.app, f"/console-base{path_of(work)}").open()
        await stream.leave()
        return stream.status

    assert asyncio.run(watched()) == 200


def test_private_arguments_are_withheld_from_all_but_approvers_whose_look_is_logged(monkeypatch):
    monkeypatch.setattr("tests.support.kernel.desk.a_policy", lambda _: a_policy(PRIVATE))
    ops = KernelOps(desk=NamedDesk(("shop",), ""))
    work = ops.desk.work()
    work.call("mail.send", arguments={"text": "the-letter"})
    work.desk.cancel(work.id)

    async def watched(name):
        return await (await reader(ops, work, name).open()).rest()

    told = {name: json.dumps(asyncio.run(watched(name))) for name in ("viewer", "operator", "client", "approver")}

    assert {name: "the-letter" in text for name, text in told.items()} == {
        **dict.fromkeys(("viewer", "operator", "client"), False),
        "approver": True,
    }
    looks = [line for line in ops.lines.outcomes if "shows" in line]
    assert [(line["caller"], line["execution_id"]) for line in looks] == [("approver", work.id)]


def test_a_stream_ends_itself_so_that_a_revoked_token_does_not_read_on(ops, work, monkeypatch):
    monkeypatch.setattr(watching, "LIFE_SECONDS", 0.5)

    async def watched():
        stream = await reader(ops, work).open()
        return await stream.rest()

    assert sequences(asyncio.run(watched())) == [event["sequence"] for event in work.desk.events(work.id)]
    assert work.status == "running"


def test_a_silent_stream_says_that_it_is_there(ops, work, monkeypatch):
    monkeypatch.setattr("ops.kernel_streams.serving.HEARTBEAT_SECONDS", 0.1)

    async def watched():
        stream = await reader(ops, work).open()
        blocks = [await stream.block() for _ in range(6)]
        await stream.leave()
        return blocks

    blocks = asyncio.run(watched())

    assert blocks[0] == "retry: 1000" and ":heartbeat" in blocks


def test_a_reader_who_leaves_frees_his_place_and_one_too_many_is_told_to_come_back(ops, work, monkeypatch):
    monkeypatch.setattr("ops.kernel_streams.serving.MOST_OPEN", 1)

    async def watched():
        first = await reader(ops, work).open()
        refused = await reader(ops, work).open()
        await first.leave()
        again = await reader(ops, work).open()
        await again.leave()
        return refused, again

    refused, again = asyncio.run(watched())

    assert (refused.status, refused.headers["retry-after"], again.status) == (503, "1", 200)


def test_a_reader_who_takes_nothing_is_cut(ops, work, monkeypatch):
    monkeypatch.setattr("ops.kernel_streams.serving.LIFE_SECONDS", 0.1)
    monkeypatch.setattr("ops.kernel_streams.serving.UNREAD_SECONDS", 0.1)

    async def taken(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def watched():
        stuck = reader(ops, work)
        stuck.parts.put = taken
        await stuck.open(begins=False)
        await asyncio.wait_for(stuck.task, 3)

    asyncio.run(watched())
    assert ops.streaming.streams._open == 0


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("GET", "{one}", (404, "not_found", None)),  # a path of the door, and of another function
        ("GET", "{one}/events", (404, "not_found", None)),
        ("GET", "/ops/status", (404, "not_found", None)),
        ("GET", "/ops/health", (404, "not_found", None)),
        ("GET", "{one}/stream/", (404, "not_found", None)),
        ("GET", "{one}/nothing", (404, "not_found", None)),
        ("POST", "{one}/stream", (405, "method_not_allowed", "GET")),
        ("DELETE", "{one}/stream", (405, "method_not_allowed", "GET")),
    ],
)
def test_only_streams_are_served_here(ops, work, method, path, answer):
    async def asked():
        stream = await Reader(ops.streaming.app, path.format(one=path_of(work).removesuffix("/stream"))).open(method)
        return stream, await stream.block()

    stream, body = asyncio.run(asked())

    assert (stream.status, json.loads(body)["code"], stream.headers.get("allow")) == answer


def test_whose_credential_takes_long_to_check_delays_no_stream_that_is_open(ops, work):
    checked, access = threading.Event(), ops.door.access

    class Slow:
        def caller(self, authorization):
            checked.wait(SECONDS)
            return access.caller(authorization)

    async def watched():
        stream = await reader(ops, work).open()
        vars(ops.door)["access"] = Slow()
        late = [reader(ops, work) for _ in range(THREADS + OPENERS)]
        for each in late:
            await each.open(begins=False)
        await asyncio.to_thread(work.step, GATED)
        while (await stream.event())["type"] != "step.created":
            pass
        assert not any(each.parts.qsize() for each in late)  # none is admitted yet
        checked.set()
        for each in [*late, stream]:
            await each.leave()

    asyncio.run(watched())


def test_a_bug_is_answered_without_its_text_and_logged(ops, work):
    vars(ops.door)["watches"] = None

    answer = ops.ask("viewer", "GET", path_of(work))

    assert (answer.status, answer.body["code"], ops.lines.bugs) == (500, "internal", ["ops_kernel_streams"])


def test_looks_are_rarer_the_longer_nothing_happens():
    class Quiet:
        is_over = False

    watch = Watch(Quiet(), 100.0)

    assert [watch.gap(now) for now in (100.0, 154.9, 155.0, 10_000.0)] == [1.0, 1.0, 2.0, 2.0]
    assert [gap for _, gap in GAPS] == [0.25, 1.0, 2.0]
    assert HEARTBEAT_SECONDS < 30 and LIFE_SECONDS < 900


class Counted:
    """Executions whose reads are counted."""

    def __init__(self, executions, counts):
        self._executions, self._counts = executions, counts

    def __getattr__(self, name):
        self._counts[name] += 1
        return getattr(self._executions, name)


def an_hour(ops, work, news_every):
    """What an hour of watching asks of the store, and how often a stream is opened; time is virtual."""
    counts, clock, now, last = Counter(), ops.desk.stage.clock, 0.0, 0
    executions, begin, news_at = ops.desk.stage.store.executions, clock.now_ms, news_every
    watches = watching.Watches(Counted(executions, counts), ops.desk.stage.settings, clock, ops.lines)
    while now < 3_600:
        scope = {"method": "GET", "path": "/", "query_string": f"after_sequence={last}".encode(), "headers": []}
        watch = watches.open(Asked(request_of(scope), Caller(), {"execution_id": work.id}), now)
        counts["opened"] += 1
        ends = False
        while not ends:
            step = watch.look(now)
            if step.frames:
                last = int(re.findall(rb"id: (\d+)", step.frames[-1])[0])
            ends = step.ends
            now += 0 if ends else watch.gap(now)
            clock.now_ms = begin + int(now * 1000)
            if news_at <= now < 3_590:
                news_at += news_every
                ops.desk.stage.kernel.signal(work.id, "note", None)
    assert last == work.desk.events(work.id)[-1]["sequence"]
    return counts


@pytest.mark.parametrize(("news_every", "column"), [(10**6, 0), (30, 1), (8, 2)])
def test_an_hour_of_watching_asks_for_what_the_document_says(ops, work, news_every, column):
    counts = an_hour(ops, work, news_every)

    table = (ROOT / "docs/cost.md").read_text("utf-8").partition("## An hour of watching")[2]
    told = {
        name: int(re.search(rf"\| {name} \|([^|]+)\|([^|]+)\|([^|]+)\|", table)[column + 1].replace(",", ""))
        for name in ("streams opened", "looks at the log", "looks at the checkpoint")
    }
    found = (counts["opened"], counts["events"], counts["read"])
    assert list(told.values()) == [pytest.approx(count, rel=0.02) for count in found], f"COUNTS {found}"
    assert set(counts) == {"opened", "events", "read"}
