"""Sign-in as the environment configures it."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from piecework.errors import SettingsError
from piecework.net.addresses import LOOPBACK
from piecework.ops.people.asking import Asking
from piecework.ops.people.claims import Expected, parse_group_roles
from piecework.ops.people.issuer import Issuer
from piecework.ops.people.kept import Kept
from piecework.ops.people.sign_in import SignIn
from piecework.reasons import Warn

ISSUER: Final = "PIECEWORK_OPS_ISSUER"
CLIENT: Final = "PIECEWORK_OPS_CLIENT_ID"
CLIENT_PARAMETER: Final = "PIECEWORK_OPS_CLIENT_ID_PARAMETER"
AUDIENCE: Final = "PIECEWORK_OPS_AUDIENCE"
SCOPE: Final = "PIECEWORK_OPS_SCOPE"
CLAIM: Final = "PIECEWORK_OPS_GROUPS_CLAIM"
GROUPS: Final = "PIECEWORK_OPS_GROUP_ROLES"
COGNITO: Final = "cognito:groups"  # the claim of Cognito's tokens, which have rules of their own


def sign_in(env: Mapping[str, str], parameter: Callable[[str], str], warn: Warn) -> SignIn | None:
    """Who signs people in, or None where no issuer is named; `parameter` reads a client's id that is not known before.

    Raises:
        SettingsError: the issuer is not an https address (http within this machine), the client is missing, or the
            roles of groups cannot be read.
    """
    url = env.get(ISSUER, "")
    if not url:
        return None
    _check_address(url)
    client, stored = env.get(CLIENT, ""), env.get(CLIENT_PARAMETER, "")
    if not client and not stored:
        raise SettingsError(f"set {CLIENT}, or {CLIENT_PARAMETER}, with {ISSUER}")
    claim = env.get(CLAIM) or "groups"
    reading = Kept(lambda: parameter(stored))

    def expected() -> Expected:
        return Expected(url, client or reading.value(), env.get(AUDIENCE, ""), claim, claim == COGNITO)

    issuer = Issuer(url, Asking(warn), warn=warn)
    return SignIn(issuer, expected, parse_group_roles(env.get(GROUPS, "")), env.get(SCOPE) or "openid")


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        is_plain = url.isascii() and url.isprintable() and "@" not in parts.netloc and not parts.query + parts.fragment
    except ValueError:
        is_secure = is_plain = False
    if not is_secure or not is_plain or not parts.hostname:
        raise SettingsError(f"{ISSUER} must be an https address without a query")
