"""The environments of one function: their number, the order of requests, and when another one is started.

Requests get environments in the order in which they came. Starting a process costs a processor for a second, so not
every request of a crowd starts one. Beyond the first few, another is started only if the request at the head has waited
a while and the function is slow (it waits for others, or for time), and only as many at once as there are processors.
More environments of a quick function would only share the same processors.
"""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Mapping
from typing import IO, Any, Final

from local.gateway.lambdas.environments import Environment, FunctionFailed, Gone
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.routes import Function

ENVIRONMENTS: Final = "PIECEWORK_LOCAL_ENVIRONMENTS"
AHEAD: Final = "PIECEWORK_LOCAL_AHEAD"  # 0: a function's first environment starts with its first request, as on AWS
MAX_ENVIRONMENTS: Final = 40  # per function; enough for every tested race, few enough for a laptop's memory
PROCESSORS: Final = os.cpu_count() or 1
AT_ONCE: Final = 2 * PROCESSORS  # environments that are started at once, without a wait for a free one
PATIENCE_SECONDS: Final = 0.25  # of the request at the head, before another environment is started for it
QUICK_SECONDS: Final = 0.1  # a shorter invocation is limited by the processors
NEWEST: Final = 0.2  # the last invocation's weight in the usual duration
LOOK_SECONDS: Final = 0.05
WAIT_SECONDS: Final = 25.0  # for a free environment; under the edge's own 29 s
IDLE_SECONDS: Final = 300
REAP_SECONDS: Final = 30


class Throttled(Exception):
    """Every environment that the function may have is busy."""


class Pool:
    """The environments of one function; their output goes to `log`, or to our own output.

    A function whose reserved concurrency is used up throttles at once, as on AWS; any other waits for a free one.
    """

    def __init__(
        self,
        function: Function,
        variables: Mapping[str, str],
        log: IO[Any] | None = None,
        most: int = MAX_ENVIRONMENTS,
    ) -> None:
        self.function = function
        self._variables = variables
        self._log = log
        self._most = min(function.reserved or most, most)
        self._idle: list[Environment] = []
        self._all: set[Environment] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[float, asyncio.Future[Environment]]] = deque()
        self._busy = 0
        self._usual_seconds = 0.0  # of an invocation
        self._freed_at = time.monotonic()
        self._looking: asyncio.TimerHandle | None = None  # only while requests wait
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, *, ahead: bool = True) -> None:
        """Start the first environment ahead of the first request, or with it."""
        if ahead:
            self._start(await self._process())
        self._tasks = [asyncio.create_task(self._reap())]

    async def close(self) -> None:
        """End every environment, busy or not."""
        if self._looking is not None:
            self._looking.cancel()
        for task in (*self._tasks, *self._starts):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._starts, return_exceptions=True)
        await asyncio.gather(*(environment.stop() for environment in self._all))

    async def invoke(self, invocation: Invocation) -> bytes:
        """Run one invocation in the next free environment.

        Raises:
            Throttled: an environment did not become free in time.
            FunctionFailed: the invocation ended without a response.
        """
        while True:
            environment = await self._next()
            with contextlib.suppress(Gone):  # it died while it was idle, before the invocation
                return await self._run(environment, invocation)

    async def _run(self, environment: Environment, invocation: Invocation) -> bytes:
        self._busy += 1
        began = time.monotonic()
        try:
            return await environment.invoke(invocation, self.function.timeout_seconds)
        finally:
            self._busy -= 1
            self._freed_at = time.monotonic()
            self._usual_seconds += NEWEST * (self._freed_at - began - self._usual_seconds)
            self._free(environment)

    async def _next(self) -> Environment:
        if not self._waiting and (warm := self._warm()):
            return warm
        if self.function.reserved and self._busy + len(self._waiting) >= self._most:
            raise Throttled(f"{self.function.name} has reserved {self._most} environments, and all are busy")
        place: asyncio.Future[Environment] = asyncio.get_running_loop().create_future()
        self._waiting.append((time.monotonic(), place))
        if self._looking is None:
            self._look()
        else:
            self._start_if_due()
        try:
            return await asyncio.wait_for(place, WAIT_SECONDS)
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and not place.exception():
                self._free(place.result())  # the caller has left; the next one gets it
            raise
        except TimeoutError:
            raise Throttled(
                f"{self.function.name}: an environment did not become free in {WAIT_SECONDS:.0f} s; {ENVIRONMENTS} "
                f"({self._most} now) allows more"
            ) from None

    def _free(self, environment: Environment) -> None:
        """Give a free environment to the longest waiting request, or keep it warm."""
        if not environment.alive:
            self._all.discard(environment)
            return
        place = self._head()
        if place is None:
            environment.idle_since = time.monotonic()
            self._idle.append(environment)
        else:
            self._waiting.popleft()
            place.set_result(environment)

    def _head(self) -> "asyncio.Future[Environment] | None":
        while self._waiting and self._waiting[0][1].done():  # this caller gave up
            self._waiting.popleft()
        return self._waiting[0][1] if self._waiting else None

    def _warm(self) -> Environment | None:
        while self._idle:
            environment = self._idle.pop()
            if environment.alive:
                return environment
            self._all.discard(environment)
        return None

    def _start_if_due(self) -> None:
        """Start another environment if the running ones will not serve the waiting requests soon."""
        if self._head() is None or len(self._starts) >= min(PROCESSORS, len(self._waiting)):
            return
        if len(self._all) < self._most and (len(self._all) < AT_ONCE or self._is_slow()):
            self._start()

    def _is_slow(self) -> bool:
        """Whether the first request has waited a while for slow invocations; quick ones only lack processors."""
        now = time.monotonic()
        if now - self._waiting[0][0] < PATIENCE_SECONDS:
            return False
        return self._usual_seconds >= QUICK_SECONDS or now - self._freed_at >= PATIENCE_SECONDS

    async def _process(self) -> Environment:
        environment = await Environment.start(self.function, self._variables, self._log)
        self._all.add(environment)
        return environment

    def _start(self, begun: Environment | None = None) -> None:
        task = asyncio.create_task(self._initialise(begun))
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def _initialise(self, begun: Environment | None) -> None:
        environment = begun or await self._process()
        try:
            await environment.initialised()
        except FunctionFailed as error:
            self._all.discard(environment)
            if place := self._head():
                self._waiting.popleft()
                place.set_exception(error)
            return
        self._free(environment)

    def _look(self) -> None:
        """Look whether to start another environment, and again after a while if requests still wait then."""
        self._start_if_due()
        waits = self._head() is not None
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if waits else None

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_SECONDS)
            old = [idle for idle in self._idle[:-1] if time.monotonic() - idle.idle_since > IDLE_SECONDS]
            self._idle = [idle for idle in self._idle if idle not in old]
            self._all.difference_update(old)
            await asyncio.gather(*(idle.stop() for idle in old))
