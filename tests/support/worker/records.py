"""Records of the worker door for tests: made and changed by the names of their stored form."""

from piecework.jsons import Json
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.record.stored import flat, from_flat

NOT_DONE = {"result": None, "failure": None, "hashes": (), "items": ()}


def a_record(**members: Json) -> Execution:
    """A record of nothing but these members, and the defaults of the others."""
    return from_flat({**NOT_DONE, **members})


def changed(execution: Execution, **members: Json) -> Execution:
    """The same version with other members."""
    return from_flat({**flat(execution), **members})


def moved(execution: Execution, target: State, **members: Json) -> Execution:
    """One version on, in a state that it may move to, with other members."""
    return changed(execution.moved(target), **members)
