"""Signing in: whose token it is and what its bearer may do, and what a browser needs to know to get one."""

from collections.abc import Callable, Mapping
from time import time
from typing import Final, NamedTuple

from piecework.edge.roles import Caller, Roles
from piecework.errors import Forbidden
from piecework.jsons import Json
from piecework.ops.access import SignInRefused
from piecework.ops.people.claims import Expected, check, groups, subject
from piecework.ops.people.issuer import Issuer
from piecework.ops.people.keys import is_signed_by, named_key
from piecework.ops.people.tokens import read_token

NO_GROUP: Final = "you are signed in, but your groups may not use this console: ask its operator for a group that may"


class SignIn(NamedTuple):
    """People of one issuer; `expected` is asked anew, because a client's id may be read at run time."""

    issuer: Issuer
    expected: Callable[[], Expected]
    group_roles: Mapping[str, Roles]
    scope: str = "openid"
    now: Callable[[], float] = time

    def caller(self, token: str) -> Caller:
        """The person who sends this token.

        Raises:
            SignInRefused: the token does not count.
            Forbidden: it counts, but the person's groups do not have a role.
            Unavailable: the issuer's keys or the client's id are out of reach.
        """
        read = read_token(token)
        name, algorithm = named_key(read)
        expected = self.expected()
        # before its key is looked for: a stranger's token causes no call
        check(read.claims, expected, self.now(), read.header.get("typ"))
        key = self.issuer.key(name, algorithm)
        if key is None or not is_signed_by(key, read):
            raise SignInRefused("the sign-in is not signed by a key of the issuer")
        person = subject(read.claims)
        named = groups(read.claims, expected.groups_claim) & self.group_roles.keys()
        if not named:
            raise Forbidden(NO_GROUP)
        roles: Roles = frozenset().union(*(self.group_roles[group] for group in named))
        return Caller(person, roles, is_limited=True)

    def described(self) -> dict[str, Json]:
        """What a browser needs to sign somebody in; it is not secret.

        Raises:
            Unavailable: the issuer's endpoints or the client's id are out of reach.
        """
        expected, found = self.expected(), self.issuer.endpoints()
        signing_out = "logout_uri" if expected.is_cognito else "post_logout_redirect_uri"
        return {
            "kind": "oidc",
            "issuer": expected.issuer,
            "client_id": expected.client_id,
            "audience": expected.audience,
            "scope": self.scope,
            "authorization_endpoint": found.authorization,
            "token_endpoint": found.token,
            "end_session_endpoint": found.end_session,
            "end_session_return": signing_out,
        }
