"""Which functions a run takes as async: those that `inspect` does."""

import inspect
from functools import partial

import pytest

from piecework.extend.runs import is_async


async def later():
    return 1


def now():
    return later()


class Both:
    async def later(self):
        return 1

    def now(self):
        return 1

    async def __call__(self):
        return 1


MADE = {
    "an async function": later,
    "a function that returns a coroutine": now,
    "a partial of an async function": partial(partial(later)),
    "a partial of a function": partial(now),
    "an async method": Both().later,
    "a method": Both().now,
    "an object that is called": Both(),
    "a partial of an async method": partial(Both().later),
    "a lambda": lambda: 1,
    "a built-in": len,
    "a method of a class": Both.later,
}


@pytest.mark.parametrize("name", MADE)
def test_a_function_is_async_when_inspect_says_so(name):
    assert is_async(MADE[name]) is inspect.iscoroutinefunction(MADE[name])
