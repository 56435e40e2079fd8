"""Who may use the operator's door: names of tokens and their roles, asked again by everything that reads or writes."""

from collections.abc import Callable
from typing import Final, NamedTuple

from piecework.edge.roles import Caller, Role, Roles, RoleTable, needed
from piecework.edge.tokens import Tokens, caller_of
from piecework.errors import Forbidden, Unauthorized

READS: Final[Roles] = frozenset({Role.VIEWER, Role.OPERATOR, Role.APPROVER})  # an approver sees what he decides on
WRITES: Final[Roles] = frozenset({Role.OPERATOR})


class Access(NamedTuple):
    """The door's tokens, as they are now, and the roles of their names."""

    tokens: Callable[[], Tokens]
    roles: RoleTable

    def caller(self, authorization: str) -> Caller:
        """Who sends this `Authorization` header. At an open door, the nameless caller who may do everything.

        Raises:
            Unauthorized: it does not hold a secret of the door.
        """
        tokens = self.tokens()
        name = caller_of(authorization, tokens)
        if name is None:
            raise Unauthorized("credentials are missing or wrong: send Bearer secret, or Basic name:secret")
        return self.roles.caller(name if tokens else "")


def require(caller: Caller, needs: Roles) -> None:
    """Raises Forbidden, with the role that is missing, unless the caller has one of those that are needed."""
    if not caller.may(needs):
        raise Forbidden(needed(needs))
