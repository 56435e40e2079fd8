"""A pool spends the gateway's processor time only while requests wait."""

import asyncio
import contextlib
from pathlib import Path
from unittest.mock import Mock

from local.gateway.lambdas.pool import LOOK_SECONDS, Pool
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.routes import Function

FUNCTION = Function("F", "f.handler", Path(), 3, 128, {})


def test_a_pool_looks_for_waiting_requests_only_while_there_are_some(monkeypatch):
    async def story():
        pool, timers = Pool(FUNCTION, {}), []
        monkeypatch.setattr(pool, "_start", Mock())  # its process does not come up
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *timer: timers.append(timer) or Mock())
        looks = [(LOOK_SECONDS, pool._look)]

        await pool.open(ahead=False)
        await asyncio.sleep(0)
        assert looks_in(timers, pool) == []

        request = asyncio.create_task(pool.invoke(Invocation("r-1", "Root=1", b"{}")))
        await asyncio.sleep(0)
        assert looks_in(timers, pool) == looks
        pool._look()
        assert looks_in(timers, pool) == looks * 2

        request.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await request
        pool._look()
        assert looks_in(timers, pool) == looks * 2
        await pool.close()

    asyncio.run(story())


def looks_in(timers, pool):
    return [timer for timer in timers if timer[1] == pool._look]
