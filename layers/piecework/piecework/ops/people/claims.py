"""What a signed token must say to count here, and what it says about a person."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from piecework.edge.roles import Role, Roles
from piecework.errors import SettingsError
from piecework.jsons import Json
from piecework.ops.access import SignInRefused

LEEWAY_SECONDS: Final = 30  # by which the issuer's clock may differ
PERSON: Final = "person:"  # before a subject: a token's name has no colon, so neither can pass for the other
GROUP: Final = re.compile(r"[A-Za-z0-9_./:-]{1,128}")
THEIRS: Final = frozenset({Role.VIEWER, Role.APPROVER, Role.OPERATOR})
GROUPS_FORM: Final = "roles of groups must be a comma list of group=role+role with viewer, approver and operator"
_SUBJECT: Final = re.compile(r"[!-~]{1,255}")  # OpenID Connect Core, section 2: at most 255 characters of ASCII
# claims of tokens that say who signed in, not what one may do
_ONLY_IN_IDS: Final = ("at_hash", "c_hash", "s_hash", "nonce")
_FOR_ACCESS: Final = ("at+jwt", "application/at+jwt")  # RFC 9068, section 2.1: the `typ` of access tokens


class Expected(NamedTuple):
    """What tokens must say: the issuer, the client that they were made for, and the API; groups stand in a claim."""

    issuer: str
    client_id: str
    audience: str = ""  # empty: the client's id
    groups_claim: str = "groups"
    is_cognito: bool = False


def check(claims: Mapping[str, Json], expected: Expected, now: float, typ: Json = None) -> None:
    """Check what a token says about itself, `now` being seconds since 1970, and `typ` what its header says that it is.

    Raises:
        SignInRefused: it is another issuer's, for another client or API, not to be used now, or not for access.
    """
    if claims.get("iss") != expected.issuer:
        raise SignInRefused("the sign-in is another issuer's")
    _check_times(claims, now)
    clients = [claims[name] for name in ("client_id", "azp") if name in claims]
    if any(client != expected.client_id for client in clients) or not _is_for(claims, clients, expected):
        raise SignInRefused("the sign-in is not for this console (client_id, azp or aud)")
    if not _is_for_access(claims, expected, typ):
        raise SignInRefused("the sign-in is not an access token")


def subject(claims: Mapping[str, Json]) -> str:
    """The name by which a person is recorded: `person:` and the subject. Raises SignInRefused without a usable one."""
    found = claims.get("sub")
    if not isinstance(found, str) or not _SUBJECT.fullmatch(found):
        raise SignInRefused("the sign-in does not name a subject")
    return PERSON + found


def groups(claims: Mapping[str, Json], claim: str) -> frozenset[str]:
    """The groups of a person: texts in a list, or one text. Other values are not groups."""
    found = claims.get(claim)
    listed = found if isinstance(found, list) else [found]
    return frozenset(name for name in listed if isinstance(name, str))


def parse_group_roles(text: str) -> dict[str, Roles]:
    """Read a comma list of `group=role+role`; a group that stands there twice has the roles of both entries.

    A person without a group in this list may not do anything.

    Raises:
        SettingsError: the list is empty, or an entry cannot be read.
    """
    named: dict[str, Roles] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        group, _, given = entry.partition("=")
        roles = {role.strip() for role in given.split("+")}
        if not GROUP.fullmatch(group) or not roles <= THEIRS:
            raise SettingsError(GROUPS_FORM)
        named[group] = named.get(group, frozenset()) | frozenset(map(Role, roles))
    if not named:
        raise SettingsError(GROUPS_FORM)
    return named


def _check_times(claims: Mapping[str, Json], now: float) -> None:
    ends = _seconds(claims, "exp")
    if ends is None or now >= ends + LEEWAY_SECONDS:
        raise SignInRefused("the sign-in has expired")
    if any((_seconds(claims, name) or 0) > now + LEEWAY_SECONDS for name in ("iat", "nbf")):
        raise SignInRefused("the sign-in is not valid yet")


def _seconds(claims: Mapping[str, Json], name: str) -> float | None:
    found = claims.get(name)
    if found is None and name not in claims:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise SignInRefused(f"the sign-in has no readable {name}")
    return found


def _is_for(claims: Mapping[str, Json], clients: list[Json], expected: Expected) -> bool:
    """Whether the token is for this API: `aud` names it; Cognito's have no `aud`, and name the client alone."""
    if "aud" not in claims:
        return bool(clients) and not expected.audience
    return (expected.audience or expected.client_id) in _audiences(claims)


def _audiences(claims: Mapping[str, Json]) -> list[Json]:
    found = claims.get("aud")
    return found if isinstance(found, list) else [found]


def _is_for_access(claims: Mapping[str, Json], expected: Expected, typ: Json) -> bool:
    """Whether a token says what its bearer may do, and not who has signed in. An ID token names the client in `aud`, so
    a token that does so must also say that it is for access: by its `typ`, or by its scopes."""
    kind = "jwt" if typ is None else typ.lower() if isinstance(typ, str) else ""
    use = claims.get("token_use", None if expected.is_cognito else "access")
    if kind not in ("jwt", *_FOR_ACCESS) or use != "access" or claims.get("typ") == "ID":
        return False
    if any(name in claims for name in _ONLY_IN_IDS):
        return False
    has_scopes = any(claims.get(name) for name in ("scope", "scp"))
    return kind in _FOR_ACCESS or has_scopes or expected.client_id not in _audiences(claims)
