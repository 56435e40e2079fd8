"""Pictures of states in docs/ show moves that the code makes."""

import re
from pathlib import Path

import pytest

from piecework.durable.pieces import State as PieceState
from piecework.kernel.model import evolve
from piecework.worker.record import states

DOCS = Path(__file__).parents[2] / "docs"
MOVE = re.compile(r"^  (\w+|\[\*\]) --> (\w+)", re.MULTILINE)


def drawn(page: str) -> set[tuple[str, str]]:
    """The moves of a page's picture, without those from outside."""
    (picture,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    found = set(MOVE.findall(picture))
    assert len(found) == picture.count("-->")
    return {(old, new) for old, new in found if old != "[*]"}


def legal(moves) -> set[tuple[str, str]]:
    return {(old.value, new.value) for old, news in moves.items() for new in news}


def test_the_picture_of_an_execution_shows_every_move():
    assert drawn("kernel/overview.md") == legal(evolve.MOVES)


def test_the_picture_of_a_paid_task_shows_moves_that_exist():
    assert drawn("worker/overview.md") <= legal(states.MOVES)


@pytest.mark.parametrize("state", PieceState)
def test_the_picture_of_a_piece_shows_every_state(state):
    assert state.value in {name for move in drawn("runtime/execute.md") for name in move}
