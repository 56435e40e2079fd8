"""The picture of a task's states has those of the worker's own table, and all of its moves."""

import re

from local.gateway.lambdas.variables import ROOT
from piecework.worker.record.states import MOVES, State

GRAPH = (ROOT / "functions/ops/files/static/parts/graph.js").read_text("utf-8")


def entries(name: str) -> dict[str, str]:
    """The entries of one of the picture's tables, as they are written."""
    table = GRAPH.partition(f"{name} = {{\n")[2].partition("\n};")[0]
    return dict(re.findall(r"^  ([A-Z_]+): (.*),$", table, re.MULTILINE))


def test_the_picture_has_every_move_of_the_worker_and_no_other():
    drawn = {state: set(re.findall(r'"([A-Z_]+)"', moves)) for state, moves in entries("MOVES").items()}

    assert drawn == {str(state): {str(to) for to in MOVES[state] if to != state} for state in State}


def test_every_state_has_a_place_and_a_meaning():
    assert entries("MEANS").keys() == entries("PLACES").keys() == set(State)
    assert len(set(entries("PLACES").values())) == len(State)
