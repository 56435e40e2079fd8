"""Roles: `name=role+role` entries beside the tokens; they say what the bearer of a token of that name may do."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from piecework.edge.tokens import NAME_PATTERN
from piecework.errors import SettingsError

FORM: Final = "roles must be a comma list of name=role+role"


class Role(StrEnum):
    """What a caller does at a door."""

    CLIENT = "client"  # creates executions, sends signals, cancels
    AGENT = "agent"  # works on executions
    RUNNER = "runner"  # works on jobs
    APPROVER = "approver"  # answers about steps
    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # reads, cancels, removes


Roles = frozenset[Role]

EVERY: Final[Roles] = frozenset(Role)
VIEWERS: Final[Roles] = frozenset({Role.VIEWER})
NO_NEED: Final[Roles] = frozenset()  # of a route that serves anybody, without a credential


class Caller(NamedTuple):
    """Who sends a request; `is_limited` tells whether roles are given at this door, so that they are a boundary."""

    name: str = ""  # of the token; empty at a door without tokens
    roles: Roles = EVERY
    is_limited: bool = False

    def may(self, needs: Roles) -> bool:
        """Whether one of the caller's roles is among those that are needed."""
        return not needs or bool(needs & self.roles)


UNLIMITED: Final = Caller()  # at an open door


class RoleTable(NamedTuple):
    """The roles of each name."""

    named: Mapping[str, Roles] = {}

    @property
    def is_limited(self) -> bool:
        """Whether any name has roles."""
        return bool(self.named)

    def caller(self, name: str) -> Caller:
        """The caller of that name.

        Everybody has every role at an open door (the empty name), and while no name has roles. As soon as any name has
        roles, a name without roles is a viewer: a forgotten name can read, but it cannot act.
        """
        if not name or not self.named:
            return Caller(name)
        return Caller(name, self.named.get(name, VIEWERS), is_limited=True)

    def without_token(self, names: Iterable[str]) -> list[str]:
        """The names that have roles and no token."""
        return sorted(set(self.named) - set(names))


def parse_roles(text: str) -> RoleTable:
    """Read a comma list of `name=role+role`; a name that stands there twice has the roles of both.

    Raises:
        SettingsError: an entry lacks a name or a role, names a role that does not exist, or the text does not hold an
            entry. Only an empty text means that roles are not configured, which gives every name every role.
    """
    named: dict[str, Roles] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, given = entry.partition("=")
        if not NAME_PATTERN.fullmatch(name) or not given:
            raise SettingsError(FORM)
        named[name] = named.get(name, frozenset()) | _roles(name, given)
    if text and not named:
        raise SettingsError(f"{FORM}; leave the setting out to have none")
    return RoleTable(named)


def needed(needs: Roles) -> str:
    """Which role a refused caller lacks, as a sentence without its end."""
    *others, last = [role.value for role in Role if role in needs]
    return f"this needs the role {', '.join(others)} or {last}" if others else f"this needs the role {last}"


def _roles(name: str, given: str) -> Roles:
    """The roles of a name. What is not a role is not shown: it may be a secret that got here by a slip."""
    roles = [role.strip() for role in given.split("+")]
    if not set(roles) <= set(Role):
        raise SettingsError(f"{name} has a role that is not one of {', '.join(Role)}")
    return frozenset(map(Role, roles))
