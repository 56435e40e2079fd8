"""What the routes stand on, and how they call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from piecework.clock import now_in_ms
from piecework.edge.roles import Caller, RoleTable
from piecework.edge.tokens import Tokens
from piecework.kernel.model.ports.runners import Runners
from piecework.kernel.model.ports.stores import Counters
from piecework.kernel.service.dispatching import Queues
from piecework.kernel.service.service import Kernel
from piecework.values import dataclass

if TYPE_CHECKING:
    from piecework.kernel.connected.lists import Connected

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Door:
    """The kernel and the parts around it that routes use."""

    kernel: Kernel
    runners: Runners
    counters: Counters
    dispatcher: Queues
    connected: Callable[[], Connected]
    ready: Callable[[], object]  # raises Unavailable when storage does not answer
    tokens: Callable[[], Tokens] = tuple
    roles: Callable[[], RoleTable] = RoleTable
    origins: Sequence[str] = ()
    bug: Callable[[str], None] = lambda _where: None  # writes the current exception to the log
    outcome: Callable[[str, Mapping[str, Any], Mapping[str, int]], None] = lambda _name, _facts, _counts: None
    clock: Callable[[], int] = now_in_ms
    uses_threads: bool = True  # a Lambda environment has one request at a time, and a thread costs it a start

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that blocks."""
        if self.uses_threads:
            return await run_in_threadpool(function, *args, **kwargs)
        return function(*args, **kwargs)


def caller_of(request: Request) -> Caller:
    """Who sends a request, and in which roles."""
    caller: Caller = request.scope.get("caller") or Caller()
    return caller


def door_of(request: Request) -> Door:
    """The door a request came through."""
    door: Door = request.app.state.door
    return door
