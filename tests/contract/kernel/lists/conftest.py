"""Stores of the kernel door on which its lists are held."""

import pytest

from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.tables import STORES, store_of


@pytest.fixture
def clock():
    return FakeClock(START_MS)


@pytest.fixture(params=STORES)
def store(request, clock):
    return store_of(request, clock)
