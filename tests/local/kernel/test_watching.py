"""A person watches an execution through the operator's door, over real processes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KERNEL = "/ops/kernel"


@pytest.fixture(scope="module")
def console(gateway):
    return gateway(api="ConsoleApi", PIECEWORK_PARAM_DeployConsole="true", PIECEWORK_PARAM_DeployKernelDoor="true").http


@contextmanager
def watching(http, execution_id: str, last: int) -> Iterator[Iterator[tuple[int, str, float]]]:
    """Sequence, type and time of arrival of the events that a reader gets who knows those until `last`."""

    def events(lines):
        sequence = 0
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "id":
                sequence = int(value)
            elif name == "event":
                yield sequence, value, time.monotonic()

    path = f"{KERNEL}/executions/{execution_id}/stream"
    with http.stream("GET", path, headers={"Last-Event-ID": str(last)}, timeout=20) as stream:
        assert stream.status_code == 200 and stream.headers["content-type"] == "text/event-stream"
        yield events(stream.iter_lines())


def test_events_come_as_they_happen_and_a_reader_who_comes_again_misses_none_and_gets_none_twice(console):
    def do(verb, **body):
        answer = console.post(f"{KERNEL}/executions/{made}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return time.monotonic()

    created = console.post(f"{KERNEL}/executions", json={"agent_id": "watched", "input": {"n": 1}})
    made = created.json()["id"]
    seen, late = [], []

    with watching(console, made, 0) as events:
        seen.append(next(events)[:2])
        for number in range(3):
            sent_at = do("signal", signal_type="note", payload=number)
            sequence, kind, came_at = next(events)
            seen.append((sequence, kind))
            late.append(came_at - sent_at)
    do("signal", signal_type="note", payload="while nobody watched")
    with watching(console, made, seen[-1][0]) as events:
        seen.append(next(events)[:2])
        do("cancel")
        seen += [event[:2] for event in events]  # to the end

    log = console.get(f"{KERNEL}/executions/{made}/events", params={"limit": "1000"}).json()["events"]
    assert seen == [(event["sequence"], event["type"]) for event in log]
    assert seen[-1][1] == "execution.cancelled"
    assert {event.get("by") for event in log} == {"ops:anonymous"}
    assert sorted(late)[1] < 1.5, late
