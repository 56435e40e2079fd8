"""What streams write: framing, pure ASCII, bounded history."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.kernel.model.changes import HistoryEntry, JobPush, Outcome, Push, StepRecord
from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.executions import Details
from piecework.kernel.model.state import Connection, Execution, Status, StepStatus
from piecework.kernel.wire.frames import (
    HISTORY_BYTES,
    HISTORY_ENTRIES,
    assigned_body,
    event_body,
    frame,
    job_body,
    result_body,
)

AT = 1_772_438_706_000
EXECUTION = Execution("e1", "triage", {}, Status.RUNNING, 2, 2, AT, AT, AT)
RECORD = StepRecord("s1", "geo.lookup", True, {"zip": "8001"}, True, Outcome(StepStatus.SUCCEEDED, {"city": "Zürich"}))
ENTRY = HistoryEntry("s1", 1, "geo.lookup", StepStatus.SUCCEEDED, AT)

texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(texts)
def test_a_frame_is_one_ascii_line_of_data_that_reads_back_equal(value):
    written = frame("tool.result", value, 7)

    lines = written.decode("ascii").splitlines()
    assert lines[:2] == ["id: 7", "event: tool.result"]
    assert lines[3:] == [""]
    assert json.loads(lines[2].removeprefix("data: ")) == value


def test_an_event_has_every_member_of_the_log():
    body = event_body(Event("i", "e1", 3, "signal.received", AT, {"signal_type": "go"}, "c", "k"))

    assert body == {
        "id": "i",
        "execution_id": "e1",
        "step_id": "",
        "type": "signal.received",
        "schema_version": 1,
        "timestamp": "2026-03-02T08:05:06.000Z",
        "payload": {"signal_type": "go"},
        "causation_id": "c",
        "correlation_id": "k",
        "idempotency_key": "",
        "sequence": 3,
    }


def test_an_assignment_leaves_out_what_is_empty_but_never_its_input():
    body = assigned_body(Details(EXECUTION, None, None), "sess", [])

    assert body == {"execution_id": "e1", "session_id": "sess", "agent_id": "triage", "input": None}


def test_an_assignment_tells_labels_and_history():
    cancelled = replace(ENTRY, step_id="s2", status=StepStatus.CANCELLED, error="agent disconnected")
    without = StepRecord("s2", "mail.send", False, None, False)
    labelled = replace(EXECUTION, labels={"env": "qa"})

    body = assigned_body(Details(labelled, {"n": 1}, None), "sess", [(ENTRY, RECORD), (cancelled, without)])

    assert body["labels"] == {"env": "qa"}
    done = {"completed_at": "2026-03-02T08:05:06.000Z"}
    assert body["history"] == [
        {
            "step_id": "s1",
            "tool_id": "geo.lookup",
            "status": "succeeded",
            "arguments": {"zip": "8001"},
            "result": {"city": "Zürich"},
            **done,
        },
        {
            "step_id": "s2",
            "tool_id": "geo.lookup",
            "status": "cancelled",
            "error": "agent disconnected",
            **done,
        },
    ]


@pytest.mark.parametrize(("size", "kept"), [(10, HISTORY_ENTRIES), (100_000, 5)])
def test_history_is_cut_from_its_old_end(size, kept):
    history = [
        (replace(ENTRY, step_id=str(number)), replace(RECORD, outcome=Outcome(StepStatus.SUCCEEDED, "x" * size)))
        for number in range(60)
    ]

    told = assigned_body(Details(EXECUTION, None, None), "sess", history)["history"]

    assert [entry["step_id"] for entry in told] == [str(number) for number in range(60 - kept, 60)]
    assert len(json.dumps(told, separators=(",", ":"))) <= HISTORY_BYTES


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome(StepStatus.SUCCEEDED, {"n": 1}), {"status": "succeeded", "result": {"n": 1}}),
        (Outcome(StepStatus.SUCCEEDED, None), {"status": "succeeded", "result": None}),
        (Outcome(StepStatus.FAILED, None, "no"), {"status": "failed", "error": "no"}),
        (Outcome(StepStatus.FAILED, {"at": 3}, "no"), {"status": "failed", "result": {"at": 3}, "error": "no"}),
    ],
)
def test_a_result_tells_how_its_step_ended(outcome, told):
    push = Push("tool.result", "triage", "c", "e1", "sess", "s1")

    assert result_body(push, outcome) == {"execution_id": "e1", "step_id": "s1", **told}


def test_a_job_has_exactly_its_documented_fields():
    push = JobPush(Connection("geo-1", "c"), "j1", "e1", "s1", "geo.lookup", 1, AT, 0)

    assert job_body(push, RECORD) == {
        "id": "j1",
        "execution_id": "e1",
        "step_id": "s1",
        "attempt": 1,
        "tool_id": "geo.lookup",
        "tool_version": 0,
        "arguments": {"zip": "8001"},
        "deadline": "2026-03-02T08:05:06.000Z",
        "not_before": "0001-01-01T00:00:00Z",
    }
