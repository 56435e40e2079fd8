"""What a browser may do in the console's origin: the headers of every file."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from piecework.errors import SettingsError

# Nothing but what the pages use. Trusted Types: only the renderer may make HTML of text, and only of its own templates.
DIRECTIVES: Final[Mapping[str, str]] = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "piecework",
}
ORIGIN: Final = re.compile(r"https://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?|http://127\.0\.0\.1:[0-9]{1,5}")
ISSUER: Final = "PIECEWORK_OPS_ISSUER"
CONNECT: Final = "PIECEWORK_OPS_CONNECT_ORIGIN"


def called(env: Mapping[str, str]) -> list[str]:
    """The origins beside our own that pages call: that of the issuer's token endpoint, where people sign in."""
    scheme, _, rest = env.get(ISSUER, "").partition("://")
    found = env.get(CONNECT) or (f"{scheme}://{rest.partition('/')[0].lower()}" if rest else "")
    return [found] if found else []


def headers(connect: Iterable[str] = ()) -> dict[str, str]:
    """The headers of every file; `connect` are the origins beside our own that a page may call.

    Raises:
        SettingsError: one of them is not an https origin.
    """
    if wrong := [origin for origin in connect if not ORIGIN.fullmatch(origin)]:
        raise SettingsError(f"{wrong[0][:100]!r} is not an origin, such as https://login.example.com")
    named = {**DIRECTIVES, "connect-src": " ".join([DIRECTIVES["connect-src"], *connect])}
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in named.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
