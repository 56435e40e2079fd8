"""Tokens: `name=secret` entries; the name is the caller's id, so rotating a secret keeps every piece."""

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from piecework.errors import SettingsError

ANONYMOUS: Final = "anonymous"  # the name of every caller at a door without tokens
Tokens = tuple[tuple[str, str], ...]  # names and secrets

SHARED: Final = "Bearer secret is taken for the first of these names, with its roles; give each a secret of its own"


class Warn(Protocol):
    """Writes a line of the log."""

    def __call__(self, event: str, /, **fields: str) -> None: ...


NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def parse_tokens(text: str) -> Tokens:
    """Read a comma list of `name=secret`; one name may have several secrets while they rotate.

    Raises:
        SettingsError: an entry lacks a name or a secret, its name is not in `[A-Za-z0-9_.-]`, or the text does not hold
            an entry. Only an empty text means that tokens are not configured, which opens a door.
    """
    entries = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, secret = entry.partition("=")
        if not NAME_PATTERN.fullmatch(name) or not secret:
            raise SettingsError("tokens must be a comma list of name=secret")
        entries.append((name, secret))
    if text and not entries:
        raise SettingsError("tokens must be a comma list of name=secret; leave the setting out to have none")
    return tuple(entries)


def sharing(tokens: Tokens) -> list[str]:
    """The names, as a text for each secret that several of them have. By Bearer alone, the first of them is told."""
    by_secret: dict[str, dict[str, None]] = {}
    for name, secret in tokens:
        by_secret.setdefault(secret, {})[name] = None
    return [", ".join(names) for names in by_secret.values() if len(names) > 1]


class Warned:
    """Warns of names that share a secret, once for each list of tokens that a process sees."""

    def __init__(self, warning: Callable[[], Warn]) -> None:
        """`warning` is made when there is something to say."""
        self._warning = warning
        self._seen: Tokens = ()

    def of(self, tokens: Tokens) -> Tokens:
        """The same tokens. They go on to open the door: to refuse them would close doors that are open today."""
        if tokens != self._seen:
            self._seen = tokens
            for names in sharing(tokens):
                self._warning()("names_share_a_secret", names=names, advice=SHARED)
        return tokens


def caller_of(authorization: str, tokens: Tokens) -> str | None:
    """The caller's name for an `Authorization` header, or None; `ANONYMOUS` when tokens are not configured.

    Basic is user = name, password = secret; Bearer is the secret. Every entry is compared, in constant time.
    """
    if not tokens:
        return ANONYMOUS
    from hmac import compare_digest  # loads OpenSSL for 5 ms, as reading the secret has done where there is one

    user, secret = _credential(authorization)
    found = None
    for name, expected in tokens:
        same = compare_digest(secret.encode(), expected.encode())
        if same and (user is None or compare_digest(user.encode(), name.encode())):
            found = found or name
    return found


def authorization_in(headers: Mapping[str, str] | None) -> str:
    """The `Authorization` header's value, whatever the case of its name."""
    return next((value or "" for name, value in (headers or {}).items() if name.lower() == "authorization"), "")


def _credential(authorization: str) -> tuple[str | None, str]:
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return None, value.strip()
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = binascii.a2b_base64(value.strip(), strict_mode=True).decode("utf-8").partition(":")
    except ValueError:
        return "", ""
    return user, password
