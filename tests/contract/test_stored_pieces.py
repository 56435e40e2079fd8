"""Rows as the code of 7a1e751 wrote them, read and carried on: pieces, steps, streams, leases of hosted runs.

`stored/running_7a1e751.json` holds the rows of three tables by name, binary values as `{"base64": …}`.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from piecework.aws.pieces_table import PiecesTable
from piecework.aws.steps_table import hosted_steps, result_steps, work_steps
from piecework.durable.pieces import LEASE_MS, Claim, Pieces, Recorded, Running, State, piece_key
from piecework.durable.steps import PieceSteps
from piecework.extend.executors import Run
from piecework.kernel.store.hosted import HostedLeases
from piecework.worker.store.stream_table import StreamTable
from piecework.worker.stream.streams import Event
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, no_renewal

STORED = json.loads((Path(__file__).parents[1] / "support" / "stored" / "running_7a1e751.json").read_text("utf-8"))
DAY_S = 86_400


def binary(value: Any) -> Any:
    """The value with its bytes."""
    if isinstance(value, dict):
        known = value.get("base64")
        return base64.b64decode(known) if known is not None else {name: binary(one) for name, one in value.items()}
    return [binary(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def places(embedded_aws):
    """Table names by what they hold, filled."""
    client = embedded_aws.client("dynamodb")
    kinds = {"work": "WorkTable", "kernel": "KernelTable"}
    names = {name: embedded_aws.new_table(*([kinds[name]] if name in kinds else [])) for name in STORED}
    for name, rows in STORED.items():
        for row in rows:
            client.put_item(TableName=names[name], Item=binary(row))
    return client, names


@pytest.fixture
def pieces(places):
    client, names = places
    clock = FakeClock(START_MS + 1_000)
    table = PiecesTable(client, names["results"])
    steps = result_steps(client, names["results"], clock)
    return Pieces(table, FakeOverflow(), clock=clock, sleep=clock.sleep, renewal=no_renewal), clock, table, steps


def key_of(name: str) -> str:
    return piece_key("runtime", "kernel", "task", name, "a")


def test_answers_that_were_recorded_stand(pieces):
    assert pieces[0].claim(key_of("done"), "print") == Recorded(b'{"candidate_output":{"answer":"yes"}}', True)
    assert pieces[0].claim(key_of("failed"), "print") == Recorded(b'{"code":"refused","message":"no"}', False)


def test_a_large_answer_is_fetched_by_its_pointer(pieces):
    table = pieces[2]
    standing = table.read(key_of("large"))

    assert standing.pointer == f"results/{key_of('large')}/{'5' * 32}" and standing.body is None


def test_a_released_piece_can_be_claimed(pieces):
    claim = pieces[0].claim(key_of("released"), "print")

    assert isinstance(claim, Claim) and claim.after is State.RELEASED


def test_a_running_piece_is_taken_over_with_every_step_under_the_name_it_had(pieces):
    own, clock, _, table = pieces
    assert own.claim(key_of("running"), "print") == Running("1" * 32)
    clock.move(LEASE_MS / 1000)
    claim = own.claim(key_of("running"), "print")
    assert isinstance(claim, Claim) and claim.took_over
    run = Run(remaining_ms=lambda: 1, steps=PieceSteps(table, claim, lambda: START_MS // 1000 + DAY_S))

    found = [run.step(name, lambda: "run again") for name in ("fetch", "fetch#2", "", "münze")]
    new = [run.step(name, lambda name=name: f"{name} of its own") for name in ("fetch", "fetch#2")]

    assert found == [{"page": 1}, "a step really called so", None, [1, 2.5]]
    assert new == ["fetch of its own", "fetch#2 of its own"]


def test_steps_of_hired_and_hosted_work_are_found(places):
    client, names = places
    hired = Claim(piece_key("worker", "ctr_demo01", "1", "1"), "lease", "digest", after=State.RUNNING)
    hosted = Claim(piece_key("kernel", "kernel", "exec-held"), "t", "", after=State.RUNNING)
    found = []
    kinds = ((work_steps, "work", hired, "fetch"), (hosted_steps, "kernel", hosted, "think"))
    for kind, table, claim, name in kinds:
        steps = PieceSteps(kind(client, names[table], FakeClock()), claim, lambda: START_MS // 1000)
        found.append(Run(remaining_ms=lambda: 1, steps=steps).step(name, lambda: "run again"))

    assert found == [{"page": 7}, "a model's answer"]


def test_a_stream_is_read_and_its_numbers_stay_taken(places):
    client, names = places
    log = StreamTable(client, names["work"])

    assert [event.kind for event in log.read("task_A/1")] == ["progress", "end"]
    assert log.append("task_A/1", Event(2, "progress", {}), START_MS // 1000 + DAY_S) is False


def test_leases_of_hosted_runs_are_held_counted_and_given_back(places):
    client, names = places
    leases = HostedLeases(client, names["kernel"])

    assert leases.claim("exec-held", "token-9", START_MS + 2, START_MS + 15_002) is None
    assert leases.release("exec-held", "token-1") is False  # somebody came meanwhile
    assert leases.release("exec-held", "token-1") is True
    assert leases.claim("exec-free", "token-9", START_MS + 3, START_MS + 15_003) == 1
