"""What the operator's door has of the kernel door: its paths, and the roles of which callers need one.

The roles are those of the kernel door. Beside them an operator may do here what a client does there, but not answer
about steps. What agents and runners do is not here.
"""

from collections.abc import Mapping
from typing import Final

from piecework.edge.roles import Role, Roles

KERNEL: Final = "/ops/kernel"
READERS: Final[Roles] = frozenset({Role.CLIENT, Role.APPROVER, Role.VIEWER, Role.OPERATOR})
CLIENTS: Final[Roles] = frozenset({Role.CLIENT, Role.OPERATOR})
APPROVERS: Final[Roles] = frozenset({Role.APPROVER})
SIGNALS: Final = CLIENTS | APPROVERS  # an answer about a step needs the latter, any other signal the former
OPERATORS: Final[Roles] = frozenset({Role.OPERATOR})

ONE: Final = f"{KERNEL}/executions/{{execution_id}}"
STEP: Final = f"{ONE}/approvals/{{step_id}}"
EVALUATE: Final = f"{KERNEL}/policy/evaluate"

STREAM: Final = f"{ONE}/stream"

# Those of the function that reads; one of them is posted, because a call's arguments are nothing for an address.
READING: Final[Mapping[str, Mapping[str, Roles]]] = {
    f"{KERNEL}/executions": {"GET": READERS},
    ONE: {"GET": READERS},
    f"{ONE}/events": {"GET": READERS},
    f"{KERNEL}/approvals": {"GET": READERS},
    f"{KERNEL}/find": {"GET": READERS},
    STEP: {"GET": READERS},
    f"{KERNEL}/agents": {"GET": READERS},
    f"{KERNEL}/runners": {"GET": READERS},
    f"{KERNEL}/tools": {"GET": READERS},
    f"{KERNEL}/policy": {"GET": READERS},
    f"{KERNEL}/webhooks": {"GET": READERS},
    EVALUATE: {"POST": READERS},
}
STREAMS: Final[Mapping[str, Mapping[str, Roles]]] = {STREAM: {"GET": READERS}}
WRITING: Final[Mapping[str, Mapping[str, Roles]]] = {
    f"{KERNEL}/executions": {"POST": CLIENTS},
    f"{KERNEL}/executions/cancel": {"POST": CLIENTS},
    f"{ONE}/cancel": {"POST": CLIENTS},
    f"{ONE}/again": {"POST": CLIENTS},
    f"{ONE}/signal": {"POST": SIGNALS},
    f"{ONE}/forget": {"POST": OPERATORS},
    STEP: {"POST": APPROVERS},
    f"{KERNEL}/agents/pause": {"POST": OPERATORS},
    f"{KERNEL}/agents/resume": {"POST": OPERATORS},
}


def needs_of_routes() -> dict[tuple[str, str], Roles]:
    """The roles of each method and path; one of them suffices."""
    parts = (READING, STREAMS, WRITING)
    return {(method, path): roles for part in parts for path, needs in part.items() for method, roles in needs.items()}


NEEDS: Final = needs_of_routes()
ROUTES: Final[Mapping[str, tuple[str, ...]]] = {
    path: tuple(sorted(method for method, other in NEEDS if other == path))
    for path in dict.fromkeys(path for _, path in sorted(NEEDS, key=lambda route: "{" in route[1]))
}  # an id in the place of a word comes after it
