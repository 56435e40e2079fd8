"""Lambda's environments: real processes that run a handler, one invocation at a time, kept warm between them."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import IO, Any, Final

from local.gateway.routes import Function
from local.gateway.runtime_api import Answer, Invocation, RuntimeApi
from local.tether import tethered

MAX_ENVIRONMENTS: Final = 40  # per function; enough for every race we test, few enough for a laptop's memory
INIT_SECONDS: Final = 60  # AWS allows 10 and then starts again; a busy laptop needs longer
IDLE_SECONDS: Final = 300
REAP_SECONDS: Final = 30


class Throttled(Exception):
    """Every environment the function may have is busy."""


class FunctionFailed(Exception):
    """The invocation ended without a response: the function raised, died, or ran past its time-out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Gone(FunctionFailed):
    """The process ended before it took the invocation; another one may have it."""


class Environment:
    """One process and its Runtime API."""

    def __init__(self, api: RuntimeApi, process: asyncio.subprocess.Process) -> None:
        self._api = api
        self.process = process
        self.idle_since = time.monotonic()
        self._doomed = False
        self._watch = asyncio.create_task(self._fail_when_dead())

    @classmethod
    async def start(cls, function: Function, variables: Mapping[str, str], log: IO[Any] | None) -> "Environment":
        """Start a process for the function; it initialises while its first invocation waits."""
        api = RuntimeApi(function.name, function.timeout_seconds)
        own = {"AWS_LAMBDA_RUNTIME_API": await api.open(), "_HANDLER": function.handler}
        command = tethered("module", "awslambdaric", function.handler)
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**variables, **own},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        return cls(api, process)

    @property
    def alive(self) -> bool:
        """Whether it can take another invocation."""
        return self.process.returncode is None and not self._doomed

    async def invoke(self, invocation: Invocation, timeout_seconds: float) -> bytes:
        """Run one invocation to its end.

        Raises:
            Gone: the process never took it.
            FunctionFailed: there is no response.
        """
        answered = self._api.submit(invocation)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._api.taken.wait(), INIT_SECONDS)
        await asyncio.wait({answered}, timeout=timeout_seconds if self._api.taken.is_set() else 0)
        self.idle_since = time.monotonic()
        if not answered.done():
            self.kill()
            raise FunctionFailed(f"Task timed out after {timeout_seconds:.2f} seconds")
        answer = answered.result()
        if answer.failed:
            raise (FunctionFailed if self._api.delivered else Gone)(answer.error_message())
        return answer.payload

    def kill(self) -> None:
        """End the process at once."""
        self._doomed = True
        if self.process.returncode is None:
            self.process.kill()

    async def stop(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        await self._watch

    async def _fail_when_dead(self) -> None:
        await self.process.wait()
        self._api.settle(Answer(b'{"errorType":"Runtime.ExitError","errorMessage":"Runtime exited"}', failed=True))
        self._api.close()


class Pool:
    """The environments of one function; what they write goes to `log`, or where ours goes."""

    def __init__(self, function: Function, variables: Mapping[str, str], log: IO[Any] | None = None) -> None:
        self.function = function
        self._variables = variables
        self._log = log
        self._idle: list[Environment] = []
        self._all: set[Environment] = set()
        self._starting = 0
        self._reaper: asyncio.Task[None] | None = None

    async def open(self, *, ahead: bool = True) -> None:
        """Start the first environment ahead of the first request, or with it."""
        if ahead:
            self._idle.append(await self._start())
        self._reaper = asyncio.create_task(self._reap())

    async def close(self) -> None:
        """End every environment, busy or not."""
        if self._reaper is not None:
            self._reaper.cancel()
        await asyncio.gather(*(environment.stop() for environment in self._all))

    async def invoke(self, invocation: Invocation) -> bytes:
        """Run one invocation in a warm environment, or in a new one.

        Raises:
            Throttled: the function has no environment left.
            FunctionFailed: there is no response.
        """
        while environment := self._warm():
            with contextlib.suppress(Gone):  # it died while it was idle; nothing has been run
                return await self._run(environment, invocation)
        return await self._run(await self._start(), invocation)

    async def _run(self, environment: Environment, invocation: Invocation) -> bytes:
        try:
            return await environment.invoke(invocation, self.function.timeout_seconds)
        finally:
            if environment.alive:
                self._idle.append(environment)
            else:
                self._all.discard(environment)

    def _warm(self) -> Environment | None:
        while self._idle:
            environment = self._idle.pop()
            if environment.alive:
                return environment
            self._all.discard(environment)
        return None

    async def _start(self) -> Environment:
        allowed = min(self.function.reserved or MAX_ENVIRONMENTS, MAX_ENVIRONMENTS)
        if len(self._all) + self._starting >= allowed:
            raise Throttled(self.function.name)
        self._starting += 1
        try:
            environment = await Environment.start(self.function, self._variables, self._log)
        finally:
            self._starting -= 1
        self._all.add(environment)
        return environment

    async def _reap(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(REAP_SECONDS)
                old = [idle for idle in self._idle[:-1] if time.monotonic() - idle.idle_since > IDLE_SECONDS]
                self._idle = [idle for idle in self._idle if idle not in old]
                self._all.difference_update(old)
                await asyncio.gather(*(idle.stop() for idle in old))
