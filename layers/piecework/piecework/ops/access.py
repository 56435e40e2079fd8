"""Who may use the operator's door, asked again by everything that reads or writes.

A caller is the bearer of one of the door's tokens, or a person whom an issuer signed in. The form of the credential
says which: what looks like a signed token is never compared with the door's secrets.
"""

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, Protocol

from piecework.edge.roles import Caller, Role, Roles, RoleTable, needed
from piecework.edge.tokens import Tokens, caller_of
from piecework.errors import Forbidden, Unauthorized

READS: Final[Roles] = frozenset({Role.VIEWER, Role.OPERATOR, Role.APPROVER})  # an approver sees what he decides on
WRITES: Final[Roles] = frozenset({Role.OPERATOR})
SIGNED: Final = "eyJ"  # `{"` in base64: a signed token begins so


class SignInRefused(Unauthorized):
    """A person's token does not count. The message says which check it failed, but not what it holds."""

    code: ClassVar[str] = "unauthorized"


class People(Protocol):
    """People whom an issuer signs in."""

    def caller(self, token: str) -> Caller:
        """Who sends this token.

        Raises:
            Unauthorized: the token does not count.
            Forbidden: the person's groups do not have a role.
            Unavailable: the token cannot be checked now.
        """


class Access(NamedTuple):
    """The door's tokens, as they are now, the roles of their names, and people, where they can sign in."""

    tokens: Callable[[], Tokens]
    roles: RoleTable
    people: People | None = None

    def caller(self, authorization: str) -> Caller:
        """Who sends this `Authorization` header. At an open door, the nameless caller who may do everything.

        Raises:
            Unauthorized: it holds neither a secret of the door nor a person's token.
            Forbidden, Unavailable: as `People.caller`; Unavailable too while the door's secrets are out of reach.
        """
        scheme, _, token = authorization.strip().partition(" ")
        if self.people and scheme.lower() == "bearer" and is_signed_token(token.strip()):
            return self.people.caller(token.strip())
        tokens = self.tokens()
        name = caller_of(authorization, tokens) if tokens or not self.people else None
        if name is None:
            raise Unauthorized("credentials are missing or wrong: send Bearer secret, or Basic name:secret")
        return self.roles.caller(name if tokens else "")


def is_signed_token(text: str) -> bool:
    """Whether a bearer's credential has the form of a signed token, and so cannot be a secret where people sign in."""
    return text.startswith(SIGNED) and text.count(".") == 2


def require(caller: Caller, needs: Roles) -> None:
    """Raises Forbidden, with the role that is missing, unless the caller has one of those that are needed."""
    if not caller.may(needs):
        raise Forbidden(needed(needs))
