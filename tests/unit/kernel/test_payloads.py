"""What events hold: a shape per type, and meanings that the log says in words or numbers."""

import pytest

from piecework.kernel.model.events import Event
from piecework.kernel.model.evolve import CHANGES
from piecework.kernel.model.payloads import (
    EMPTY,
    KEPT,
    PAYLOADS,
    ExecutionResumed,
    StepCreated,
    is_remote,
    resumed_by_signal,
    resuming_signal,
)
from tests.support.kernel.payloads import check_payloads

GONE = {
    "execution.blocked": {"arguments"},
    "intent.accepted": {"details"},
    "intent.denied": {"arguments", "idempotency_key"},
}


def test_every_type_of_event_has_a_payload_of_its_own():
    assert set(PAYLOADS) == {"execution.created", *CHANGES}
    assert len(set(PAYLOADS.values())) == len(PAYLOADS)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_of_every_member_it_is_said_whether_it_stays_when_its_execution_is_forgotten(kind):
    kept, empty, gone = KEPT.get(kind, frozenset()), set(EMPTY.get(kind, {})), GONE.get(kind, set())

    assert sorted([*kept, *empty, *gone]) == sorted(PAYLOADS[kind].__annotations__)
    assert PAYLOADS[kind].__required_keys__ <= kept | empty


@pytest.mark.parametrize("signal_type", ["go", "", "signal received: go", "approval granted"])
def test_the_signal_that_resumes_is_read_back_whatever_its_type_is_called(signal_type):
    assert resuming_signal(resumed_by_signal(signal_type)) == signal_type


@pytest.mark.parametrize("reason", ["approval granted", "approval denied"])
def test_an_answer_that_resumes_is_no_signal(reason):
    assert resuming_signal(ExecutionResumed(reason=reason)) is None


@pytest.mark.parametrize(
    ("attempts", "said", "remote"),
    [(1, {}, False), (3, {}, True), (1, {"remote": True}, True), (1, {"remote": False}, False)],
)
def test_a_step_is_remote_by_its_own_word_and_else_by_its_attempts(attempts, said, remote):
    created = StepCreated(tool_id="t", tool_version=0, arguments=None, max_attempts=attempts, attempt=1, deadline="")

    assert is_remote({**created, **said}) is remote


@pytest.mark.parametrize("payload", [{}, {"runner_id": 1}, {"runner_id": "geo-1", "more": 1}])
def test_a_payload_that_does_not_fit_its_type_is_noticed(payload):
    with pytest.raises(AssertionError):
        check_payloads([Event("id", "execution", 1, "step.started", 0, payload, "id", "id", "step")])
