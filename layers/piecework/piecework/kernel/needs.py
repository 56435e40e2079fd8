"""Which roles may use which route; any one of them suffices. A signal's own role is checked where it is decided."""

from collections.abc import Mapping
from typing import Final

from piecework.edge.roles import EVERY, NO_NEED, Caller, Role, Roles, needed
from piecework.kernel.errors import Forbidden

ANYBODY: Final = NO_NEED  # without a credential
ANY_ROLE: Final = EVERY
CLIENTS: Final[Roles] = frozenset({Role.CLIENT})
AGENTS: Final[Roles] = frozenset({Role.AGENT})
RUNNERS: Final[Roles] = frozenset({Role.RUNNER})
APPROVERS: Final[Roles] = frozenset({Role.APPROVER})
OPERATORS: Final[Roles] = frozenset({Role.OPERATOR})
READERS: Final[Roles] = frozenset({Role.CLIENT, Role.APPROVER, Role.VIEWER, Role.OPERATOR})
CANCELS: Final[Roles] = frozenset({Role.CLIENT, Role.OPERATOR})
SIGNALS: Final = CLIENTS | APPROVERS  # an answer about a step needs the latter, any other signal the former
FORGETS: Final[Roles] = frozenset({Role.OPERATOR})
FORGETS_RUNNERS: Final[Roles] = frozenset({Role.RUNNER, Role.OPERATOR})
STREAMS: Final[Mapping[str, Roles]] = {  # of a function of their own
    "/v0/agents/stream": AGENTS,
    "/v0/runners/stream": RUNNERS,
    "/v0/executions/{execution_id}/stream": READERS,
}


def check(caller: Caller, needs: Roles) -> None:
    """Raises Forbidden, which names the missing role, unless the caller has one that is needed."""
    if not caller.may(needs):
        raise Forbidden(needed(needs))
