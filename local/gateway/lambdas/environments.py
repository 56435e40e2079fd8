"""Lambda's environments: real processes that run a handler, one invocation at a time, and stay warm in between."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Mapping
from threading import Thread
from typing import IO, Any, Final

from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.runtime_api import Invocation, RuntimeApi, failure
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

    def __init__(self, api: RuntimeApi, process: "subprocess.Popen[bytes]") -> None:
        self._api = api
        self.process = process
        self.idle_since = time.monotonic()
        self._doomed = False
        self._ended = _end_of(process)
        self._watch = asyncio.create_task(self._fail_when_dead())

    @classmethod
    async def start(cls, function: Function, variables: Mapping[str, str], log: IO[Any] | None) -> "Environment":
        """Start a process for the function; the first invocation waits while it initialises."""
        api = RuntimeApi(function.name, function.timeout_seconds)
        own = {"AWS_LAMBDA_RUNTIME_API": await api.open(), "_HANDLER": function.handler}
        command = dying_with_parent("module", "awslambdaric", function.handler)
        process = subprocess.Popen(  # noqa: ASYNC220  # a millisecond; uvloop's own way copies our memory, for thirty
            command,
            env={**variables, **own},
            stdin=subprocess.DEVNULL,
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
        return not self._ended.done() and not self._doomed

    async def invoke(self, invocation: Invocation, timeout_seconds: float) -> bytes:
        """Run one invocation to its end.

        Raises:
            Gone: the process did not take it.
            FunctionFailed: the invocation ended without a response.
        """
        answered = self._api.submit(invocation)
        if not self._api.taken.done():
            await asyncio.wait({self._api.taken}, timeout=INIT_SECONDS)
        seconds = timeout_seconds if self._api.taken.done() else 0
        limit = asyncio.get_running_loop().call_later(seconds, self._end, f"Task timed out after {seconds:.2f} seconds")
        try:
            answer = await answered
        finally:
            limit.cancel()
            self.idle_since = time.monotonic()
        if answer.failed:
            raise (FunctionFailed if self._api.delivered else Gone)(answer.error_message())
        return answer.payload

    def kill(self) -> None:
        """End the process at once."""
        self._doomed = True
        self.process.kill()

    async def stop(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        await self._watch

    def _end(self, why: str) -> None:
        self.kill()
        self._api.settle(failure("Sandbox.Timedout", why))

    async def _fail_when_dead(self) -> None:
        await self._ended
        self._api.settle(failure("Runtime.ExitError", "Runtime exited"))
        self._api.close()


def _end_of(process: "subprocess.Popen[bytes]") -> "asyncio.Future[None]":
    """A future that is done when the process has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def wait() -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_set, ended)

    Thread(target=wait, daemon=True).start()
    return ended


def _set(ended: "asyncio.Future[None]") -> None:
    if not ended.done():  # its waiter may have been cancelled
        ended.set_result(None)
