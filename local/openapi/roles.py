"""The page docs/kernel/roles.md: which role may use which route of the kernel door, from what the routes declare."""

from collections.abc import Mapping
from typing import Final

from kernel.http.api import ROUTES
from piecework.edge.roles import EVERY, Role, Roles
from piecework.kernel.needs import ANYBODY, STREAMS
from piecework.ops.kernel_routes import NEEDS

PAGE: Final = """\
# Roles at the kernel door

`python -m local.openapi` writes this page from the code. [Security](../security.md#roles-at-the-kernel-door) says how
names get roles.

A route asks for one of the roles that are marked. A caller without any of them gets 403 `FORBIDDEN`, with the roles
that would do: `this needs the role approver`. Health and ready are open to everybody, without a token.

{table}

A signal that answers about a step needs `approver`; any other signal needs `client`. Which of both it is depends on
what the execution waits for: a signal of the type `step.approve` for which the agent itself waits is an ordinary one.

## The same executions at the operator's door
These routes have the tokens and the roles of [that door](../ops.md#the-kernel), which are other tokens. An operator may
do there what a client does here, but does not answer about steps. Any other signal needs `client` or `operator`.

{of_operators}
"""
YES: Final = "yes"


def needs_of_routes() -> dict[tuple[str, str], Roles]:
    """The roles of each method and path; one of them suffices."""
    served = {(method, route.path): route.needs for route in ROUTES for method in route.methods}
    return served | {("GET", path): needs for path, needs in STREAMS.items()}


def table() -> str:
    """Route × role in Markdown."""
    return _table(needs_of_routes())


def ops_table() -> str:
    """The same of what the operator's door has of the kernel."""
    return _table(NEEDS)


def _table(routes: Mapping[tuple[str, str], Roles]) -> str:
    names = [role.value for role in Role]
    rows = [["route", *names], ["---"] * (len(names) + 1)]
    for (method, path), needs in routes.items():
        roles = EVERY if needs == ANYBODY else needs
        rows.append([f"`{method} {path}`", *(YES if role in roles else "" for role in Role)])
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in rows)


def page() -> str:
    """The whole page."""
    return PAGE.format(table=table(), of_operators=ops_table())
