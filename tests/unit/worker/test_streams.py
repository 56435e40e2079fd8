"""Streams: numbering, resuming, the end, tokens and framing."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.errors import Unavailable
from piecework.worker.errors import WorkerError
from piecework.worker.stream.streams import (
    DELTA_CHARACTERS,
    END,
    KEPT_MS,
    MAX_BYTES,
    MAX_EVENTS,
    TOKEN_MS,
    Event,
    Look,
    Recorder,
    Streams,
    StreamTokens,
    final_events,
    frames,
    reader_of,
)
from tests.support.fakes import START_MS, FakeClock
from tests.support.worker.streams import FakeStreamLog, FakeTasks

TASK = "task_7Q2M9ZK4T8WX1B5C0D3F6G7HJK"
OTHER = "task_7Q2M9ZK4T8WX1B5C0D3F6G7HJL"
CONTRACT = "ctr_demo01"
STREAM = f"{TASK}/1"
DONE = {"status": "completed", "output": {"type": "json", "content": {"score": 7}}}


def a_reader(*progress, final=None):
    log, tasks = FakeStreamLog(), FakeTasks({(CONTRACT, TASK): Look(STREAM, final, START_MS if final else 0)})
    recorder = Recorder(log, STREAM, 0)
    for pct in progress:
        recorder(pct)
    return Streams(log, tasks, FakeClock(START_MS)), log, tasks


def kinds(batch):
    return [(event.seq, event.kind) for event in batch.events]


def test_progress_is_numbered_from_one():
    streams, _, _ = a_reader(10, 20)

    batch = streams.after(CONTRACT, TASK, "0")

    assert kinds(batch) == [(1, "progress"), (2, "progress")]
    assert not batch.ended


@pytest.mark.parametrize(("last_id", "first"), [("1", 2), ("0", 1), ("", 1), ("7", 1), ("-1", 1), ("x", 1)])
def test_a_reader_goes_on_where_it_was_and_an_unknown_id_starts_over(last_id, first):
    streams, _, _ = a_reader(10, 20)

    assert streams.after(CONTRACT, TASK, last_id).events[0].seq == first


def test_what_follows_the_progress_is_made_from_the_final_body():
    streams, _, _ = a_reader(10, final=DONE)

    batch = streams.after(CONTRACT, TASK, "0")

    assert kinds(batch) == [(1, "progress"), (2, "item"), (3, "done")]
    assert batch.events[-1].data == DONE
    assert batch.ended


def test_an_ended_stream_has_nothing_more():
    streams, _, _ = a_reader(10, final=DONE)

    batch = streams.after(CONTRACT, TASK, "3")

    assert batch.events == [] and batch.ended


def test_late_progress_cannot_pass_the_end():
    streams, log, _ = a_reader(10, final=DONE)
    streams.after(CONTRACT, TASK, "0")

    Recorder(log, STREAM, 0)(99)

    assert [event.kind for event in log.read(STREAM)] == ["progress", END]
    assert kinds(streams.after(CONTRACT, TASK, "0")) == [(1, "progress"), (2, "item"), (3, "done")]


def test_progress_that_comes_between_look_and_end_mark_is_kept():
    streams, log, _ = a_reader(10, final=DONE)
    append, late = log.append, Event(2, "progress", {"pct": 20, "message": ""})

    def racing(stream, event, expires_at):
        log.append = append
        append(stream, late, expires_at)
        return append(stream, event, expires_at)

    log.append = racing

    assert kinds(streams.after(CONTRACT, TASK, "0")) == [(1, "progress"), (2, "progress"), (3, "item"), (4, "done")]


def test_two_runners_of_one_task_share_its_numbers():
    log = FakeStreamLog()
    one, two = Recorder(log, STREAM, 0), Recorder(log, STREAM, 0)

    for recorder in (one, two, one, two):
        recorder(5)

    assert [event.seq for event in log.read(STREAM)] == [1, 2, 3, 4]


def test_a_task_tells_no_more_than_the_stream_may_hold():
    log = FakeStreamLog()
    recorder = Recorder(log, STREAM, 0)

    for _ in range(MAX_EVENTS + 5):
        recorder(5)

    assert len(log.read(STREAM)) == MAX_EVENTS - 1  # one number is left for the end


def test_a_log_out_of_reach_does_not_fail_the_run():
    asked = []

    class Broken(FakeStreamLog):
        def append(self, stream, event, expires_at):
            asked.append(event)
            raise Unavailable("out of reach")

    Recorder(Broken(), STREAM, 0)(5, "half")

    assert asked


def test_progress_is_cleaned_and_bounded():
    log = FakeStreamLog()

    for pct in (-3, 250, float("nan")):
        Recorder(log, STREAM, 0)(pct, "a\nb\x00" + "c" * 1000)

    assert [event.data["pct"] for event in log.read(STREAM)] == [0.0, 100.0, 0.0]
    assert all("\n" not in event.data["message"] and len(event.data["message"]) <= 500 for event in log.read(STREAM))


def test_a_day_after_its_end_a_stream_is_over():
    streams, _, _ = a_reader(10, final=DONE)
    streams.clock.move(KEPT_MS / 1000 + 1)

    batch = streams.after(CONTRACT, TASK, "0")

    assert batch.ended and not batch.events


def test_a_task_of_another_contract_is_not_there():
    streams, _, _ = a_reader(10)

    with pytest.raises(WorkerError) as refused:
        streams.after("ctr_other", TASK, "0")

    assert refused.value.code == "TASK_NOT_FOUND"


def test_several_items_are_sent_one_by_one():
    items = [{"type": "text", "content": "a"}, {"type": "json", "content": 1}]

    events = final_events(4, {"status": "completed", "output": {"type": "multiple", "items": items}})

    assert [(event.seq, event.kind) for event in events] == [(4, "item"), (5, "item"), (6, "done")]
    assert [event.data for event in events[:2]] == items


def test_a_text_comes_in_pieces_that_make_it_whole():
    text = "é" * (DELTA_CHARACTERS * 2 + 1)

    *pieces, done = final_events(1, {"status": "completed", "output": {"type": "text", "content": text}})

    assert [piece.data["index"] for piece in pieces] == [0, 1, 2]
    assert "".join(piece.data["delta"] for piece in pieces) == text
    assert done.kind == "done"


def text_after(*deltas, text="abcdef"):
    """The deltas that complete a text after these (index, delta) were sent."""
    before = [Event(n, "output", {"index": index, "delta": delta}) for n, (index, delta) in enumerate(deltas, 1)]
    *rest, _ = final_events(len(before) + 1, {"output": {"type": "text", "content": text}}, before)
    return [(event.data["index"], event.data["delta"]) for event in rest]


@pytest.mark.parametrize(
    ("sent", "rest"),
    [
        ([], [(0, "abcdef")]),
        ([(0, "abc")], [(1, "def")]),
        ([(0, "abc"), (1, "def")], []),
        ([(0, "zzz")], [(0, "abcdef")]),
        ([(0, "zzz"), (0, "ab"), (1, "c")], [(2, "def")]),  # the second run counts
        ([(0, "ab"), (4, "zz"), (1, "c")], [(2, "def")]),  # a late one of a run that is gone
    ],
)
def test_a_text_that_was_told_is_completed(sent, rest):
    assert text_after(*sent) == rest


@pytest.mark.parametrize(
    ("sent", "rest"),
    [
        (["one ", "two "], [(2, "three")]),
        (["one two three"], []),
        (["another "], [(0, "one two three")]),
    ],
)
def test_a_text_that_was_told_is_completed_beside_files(sent, rest):
    before = [Event(place + 1, "output", {"index": place, "delta": delta}) for place, delta in enumerate(sent)]
    file = {"type": "file", "name": "plan.txt", "checksum": "sha256:00", "url": "https://files.example/1"}
    output = {"type": "multiple", "items": [file, {"type": "text", "content": "one two three"}]}

    events = final_events(len(sent) + 1, {"output": output}, before)

    told = [(event.data["index"], event.data["delta"]) for event in events if event.kind == "output"]
    assert told == rest
    assert [event.data for event in events if event.kind == "item"] == [file]


def test_a_text_beside_files_that_was_not_told_comes_as_an_item():
    text = {"type": "text", "content": "one"}
    progress = [Event(1, "progress", {"pct": 5, "message": ""})]

    events = final_events(2, {"output": {"type": "multiple", "items": [text]}}, progress)

    assert [event.kind for event in events] == ["item", "done"]


def test_an_item_that_was_told_whole_is_not_sent_again():
    file = {"type": "file", "name": "a.txt", "checksum": "sha256:1", "mime": "text/plain", "size": 1}
    told = [Event(1, "item", {**file, "key": "deliverables/x"}), Event(2, "item", {"type": "json", "content": 1})]
    items = [{**file, "url": "https://x"}, {"type": "json", "content": 1}, {"type": "json", "content": 2}]

    events = final_events(3, {"output": {"type": "multiple", "items": items}}, told)

    assert [(event.seq, event.kind) for event in events] == [(3, "item"), (4, "done")]
    assert events[0].data == items[2]


def test_an_item_that_was_told_without_its_link_is_sent_again():
    file = {"type": "file", "name": "a.txt", "checksum": "sha256:1", "mime": "text/plain", "size": 1}

    events = final_events(2, {"output": file}, [Event(1, "item", {**file, "withheld": True})])

    assert [event.kind for event in events] == ["item", "done"]


def test_a_stored_file_is_linked_when_it_is_read():
    streams, log, _ = a_reader()
    Recorder(log, STREAM, 0).tell("item", {"type": "file", "name": "a.txt", "key": "deliverables/x"})

    (event,) = streams.after(CONTRACT, TASK, "0").events

    assert event.data == {"type": "file", "name": "a.txt", "url": "https://files.example/fresh"}


def test_a_failure_is_an_error_and_then_done():
    body = {"status": "failed", "error": {"code": "TASK_TIMEOUT"}}

    assert [event.kind for event in final_events(1, body)] == ["error", "done"]


def test_a_body_that_is_too_long_twice_is_sent_once():
    body = {"status": "completed", "output": {"type": "json", "content": "x" * (MAX_BYTES // 2)}}

    assert [event.kind for event in final_events(1, body)] == ["done"]


def test_the_first_block_says_how_soon_to_come_back():
    first, second = frames([Event(1, "progress", {"pct": 1}), Event(2, "progress", {"pct": 2})], first=True)

    assert first == b'retry: 2000\nid: 1\nevent: progress\ndata: {"pct":1}\n\n'
    assert second == b'id: 2\nevent: progress\ndata: {"pct":2}\n\n'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_stays_on_one_data_line(text):
    frame = Event(1, "output", {"delta": text}).frame().decode()

    lines = frame.split("\n")
    assert [line.partition(": ")[0] for line in lines] == ["id", "event", "data", "", ""]
    assert json.loads(lines[2].removeprefix("data: ")) == {"delta": text}
    assert "\r" not in frame


def test_a_token_opens_its_own_task_for_a_day():
    tokens = StreamTokens(b"key")

    token = tokens.issue(CONTRACT, TASK, START_MS)

    assert tokens.contract_of(token, TASK, START_MS + TOKEN_MS - 1000) == CONTRACT


@pytest.mark.parametrize("wrong", ["late", "task", "key", "contract", "bits", "empty"])
def test_a_token_that_does_not_fit_opens_nothing(wrong):
    tokens, task, now = StreamTokens(b"key"), TASK, START_MS
    token = tokens.issue(CONTRACT, TASK, START_MS)
    if wrong == "late":
        now += TOKEN_MS + 1000
    elif wrong == "task":
        task = OTHER
    elif wrong == "key":
        tokens = StreamTokens(b"other")
    elif wrong == "contract":
        token = token.replace(CONTRACT, "ctr_other")
    else:
        token = token[:-1] if wrong == "bits" else ""

    with pytest.raises(WorkerError) as refused:
        tokens.contract_of(token, task, now)

    assert refused.value.code == "TASK_NOT_FOUND"


@pytest.mark.parametrize("contract_ids", [[], ["ctr_a", "ctr_b"], ["../x"]])
def test_a_reader_that_names_no_one_contract_is_refused(contract_ids):
    with pytest.raises(WorkerError) as refused:
        reader_of(contract_ids, "", TASK, StreamTokens(b"key"), START_MS)

    assert refused.value.code == "INVALID_REQUEST"


def test_an_end_mark_outlives_the_stream():
    streams, log, tasks = a_reader(final=DONE)
    tasks.looks[CONTRACT, TASK] = replace(tasks.looks[CONTRACT, TASK], finished_at_ms=START_MS)

    streams.after(CONTRACT, TASK, "0")

    assert log.expires[STREAM, 1] * 1000 >= START_MS + KEPT_MS
