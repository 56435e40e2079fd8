"""Leases of hosted runs: the fake and the adapter over the kernel table pass the same tests."""

import uuid

import pytest

from piecework.errors import LeaseLost
from piecework.kernel.store.hosted import HostedLeases
from tests.support.fakes import START_MS
from tests.support.kernel.hosted_stage import FakeLeases
from tests.support.lost_answers import LostAnswers

LATER = START_MS + 15_000


@pytest.fixture(params=["fake", "adapter", "lost answers"])
def leases(request):
    if request.param == "fake":
        return FakeLeases()
    aws = request.getfixturevalue("embedded_aws")
    client = aws.client("dynamodb")
    return HostedLeases(
        LostAnswers(client) if request.param == "lost answers" else client, aws.new_table("KernelTable")
    )


@pytest.fixture
def execution_id():
    return uuid.uuid4().hex


def test_one_run_at_a_time(leases, execution_id):
    assert leases.claim(execution_id, "one", START_MS, LATER) == 1
    assert leases.claim(execution_id, "two", START_MS + 1, LATER) is None


def test_a_lapsed_lease_is_taken_over_and_counted(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)

    assert leases.claim(execution_id, "two", LATER, LATER + 1) == 2
    for late in (lambda: leases.renew(execution_id, "one", LATER), lambda: leases.release(execution_id, "one")):
        with pytest.raises(LeaseLost):
            late()


def test_a_renewed_lease_is_held_longer(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)
    leases.renew(execution_id, "one", LATER + 10)

    assert leases.claim(execution_id, "two", LATER, LATER + 20) is None


def test_a_released_lease_forgets_its_tries(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)

    assert leases.release(execution_id, "one")
    assert leases.claim(execution_id, "two", START_MS, LATER) == 1


def test_who_came_meanwhile_makes_the_holder_look_again_once(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)
    leases.claim(execution_id, "two", START_MS, LATER)

    assert not leases.release(execution_id, "one")
    assert leases.claim(execution_id, "three", START_MS, LATER) is None
    assert not leases.release(execution_id, "one")
    assert leases.release(execution_id, "one")


def test_a_mark_for_a_lost_run_does_not_outlive_it(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)
    leases.claim(execution_id, "two", START_MS, LATER)

    assert leases.claim(execution_id, "three", LATER, LATER + 10) == 2
    assert leases.release(execution_id, "three")


def test_a_run_that_gives_up_keeps_its_count(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)
    leases.give_up(execution_id, "one")

    assert leases.claim(execution_id, "two", START_MS, LATER) == 2


def test_a_lost_run_that_gives_up_changes_nothing(leases, execution_id):
    leases.claim(execution_id, "one", START_MS, LATER)
    leases.claim(execution_id, "two", LATER, LATER + 10)
    leases.give_up(execution_id, "one")

    assert leases.claim(execution_id, "three", LATER + 1, LATER + 20) is None
