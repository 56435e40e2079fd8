"""Lambda's environments: real processes that run a handler, one invocation at a time, and stay warm in between."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import IO, Any, Final

from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.runtime_api import Answer, Invocation, RuntimeApi
from local.gateway.routes import Function

INIT_SECONDS: Final = 60  # AWS allows 10 and then starts again; a busy laptop needs more


class FunctionFailed(Exception):
    """The invocation ended without a response: the function raised, died, or ran past its time-out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Gone(FunctionFailed):
    """The process ended before it took the invocation, which another process may take."""


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
        """Start a process for the function; the first invocation waits while it initialises."""
        api = RuntimeApi(function.name, function.timeout_seconds)
        own = {"AWS_LAMBDA_RUNTIME_API": await api.open(), "_HANDLER": function.handler}
        command = dying_with_parent("module", "awslambdaric", function.handler)
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**variables, **own},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        return cls(api, process)

    async def initialised(self) -> None:
        """Wait until the process asks for work.

        Raises:
            FunctionFailed: the process ended first.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._api.ready.wait(), INIT_SECONDS)
        if not self.alive or not self._api.ready.is_set():
            self.kill()
            raise FunctionFailed(self._api.answer.result().error_message() if self._api.answer.done() else "no start")

    @property
    def alive(self) -> bool:
        """Whether the process can take another invocation."""
        return self.process.returncode is None and not self._doomed

    async def invoke(self, invocation: Invocation, timeout_seconds: float) -> bytes:
        """Run one invocation to its end.

        Raises:
            Gone: the process did not take it.
            FunctionFailed: the invocation ended without a response.
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
