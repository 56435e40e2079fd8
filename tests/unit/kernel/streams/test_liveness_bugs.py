"""A bug that one execution meets while a consumer's sessions are ended: the others have their turn, and it is told."""

from types import SimpleNamespace

import pytest

from piecework.errors import Unavailable
from piecework.kernel.streams.liveness import Liveness
from tests.support.fakes import FakeClock

CONSUMER = SimpleNamespace(agent_id="a", consumer_id="c")


def a_liveness(meets, ended):
    def read(execution_id):
        if execution_id in meets:
            raise meets[execution_id]
        ended.append(execution_id)
        return SimpleNamespace(execution=None)

    agents = SimpleNamespace(sessions=lambda agent_id, consumer_id: ["e1", "e2", "e3", "e4"])
    stores = SimpleNamespace(agents=agents, executions=SimpleNamespace(read=read))
    return Liveness(stores, None, None, None, FakeClock(), None)


def test_the_first_is_raised_the_others_are_logged_and_all_have_had_their_turn(caplog):
    ended = []
    looks = a_liveness({"e1": KeyError("first"), "e3": ValueError("second")}, ended)

    with pytest.raises(KeyError, match="first"):
        looks._end_sessions(CONSUMER)

    assert ended == ["e2", "e4"]
    assert caplog.messages == ["a further session was not ended"]
    assert str(caplog.records[0].exc_info[1]) == "second"


def test_a_store_out_of_reach_ends_it_at_once(caplog):
    ended = []

    with pytest.raises(Unavailable):
        a_liveness({"e2": Unavailable("x")}, ended)._end_sessions(CONSUMER)
    assert ended == ["e1"] and caplog.messages == []
