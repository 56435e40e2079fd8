"""Groups of routes. Starlette serves them: to import FastAPI takes longer than all that a request needs.

FastAPI makes the OpenAPI document of the same routes, which is not a part of the function (`local/openapi/kernel.py`).
"""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kernel.http.documented import Described
from kernel.http.doors import caller_of
from piecework.edge.roles import Roles
from piecework.kernel.errors import Unauthorized
from piecework.kernel.needs import check

Operation = Callable[..., Awaitable[Response]]  # of a request and of what its path names
Op = TypeVar("Op", bound=Operation)


class DescribedRoute(Route):
    """A method of a path, the roles of which its callers need one, and what FastAPI is told of it."""

    def __init__(self, method: str, path: str, needs: Roles, operation: Operation, about: Described) -> None:
        async def answered(request: Request) -> Response:
            if needs and "caller" not in request.scope:  # a path that the edge has taken for another
                raise Unauthorized
            check(caller_of(request), needs)
            return await operation(request, **request.path_params)

        super().__init__(path, answered)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")  # `$` lets a newline follow
        self.methods: set[str] = {method}  # GET does not bring HEAD along
        self.needs, self.operation, self.about = needs, operation, about


class Routes(list[DescribedRoute]):
    """A group, which decorators fill; `needs` are roles, of which one suffices (`piecework.kernel.needs`)."""

    def get(self, path: str, needs: Roles, *about: Described) -> Callable[[Op], Op]:
        return self._adding("GET", path, needs, about)

    def post(self, path: str, needs: Roles, *about: Described) -> Callable[[Op], Op]:
        return self._adding("POST", path, needs, about)

    def delete(self, path: str, needs: Roles, *about: Described) -> Callable[[Op], Op]:
        return self._adding("DELETE", path, needs, about)

    def _adding(self, method: str, path: str, needs: Roles, about: tuple[Described, ...]) -> Callable[[Op], Op]:
        def added(operation: Op) -> Op:
            merged = {key: one[key] for one in about for key in one}
            self.append(DescribedRoute(method, path, needs, operation, merged))
            return operation

        return added
