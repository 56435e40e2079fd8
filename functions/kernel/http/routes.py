"""Groups of routes. Starlette serves them: to import FastAPI takes longer than all that a request needs.

FastAPI makes the OpenAPI document of the same routes, which is not a part of the function (`local/openapi/kernel.py`).
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kernel.http.documented import Described

Operation = Callable[..., Awaitable[Response]]  # of a request and of what its path names
Op = TypeVar("Op", bound=Operation)


class DescribedRoute(Route):
    """A method of a path, and what FastAPI is told of it."""

    def __init__(self, method: str, path: str, operation: Operation, about: Described) -> None:
        async def answered(request: Request) -> Response:
            return await operation(request, **request.path_params)

        super().__init__(path, answered)
        self.methods: set[str] = {method}  # GET does not bring HEAD along
        self.operation, self.about = operation, about


class Routes(list[DescribedRoute]):
    """A group, which decorators fill."""

    def get(self, path: str, *about: Described) -> Callable[[Op], Op]:
        return self._adding("GET", path, about)

    def post(self, path: str, *about: Described) -> Callable[[Op], Op]:
        return self._adding("POST", path, about)

    def delete(self, path: str, *about: Described) -> Callable[[Op], Op]:
        return self._adding("DELETE", path, about)

    def _adding(self, method: str, path: str, about: tuple[Described, ...]) -> Callable[[Op], Op]:
        def added(operation: Op) -> Op:
            self.append(DescribedRoute(method, path, operation, {key: one[key] for one in about for key in one}))
            return operation

        return added
