"""Who may call a local door without tokens: programs on this machine, but not web pages from elsewhere.

A browser lets any page send requests to 127.0.0.1, and a name that starts to resolve there becomes the page's own
origin. So a door without tokens serves only hosts of this machine, and refuses requests of pages from elsewhere. The
content type is not checked, because `curl -d` must work. A worker door is public by nature: there pages may read
(manifest, preflights), and may do more if `WorkerCorsOrigin` names their origin.
"""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from local.gateway.events import Call
from local.gateway.lambdas.variables import OWN_TOKENS, PARAMETER_PREFIX, PUBLIC_BASE_URL, TOKENS
from local.gateway.routes import Api

PUBLIC_URLS: Final = ("PIECEWORK_RUNTIME_PUBLIC_URL", PUBLIC_BASE_URL)  # tunnels of the caller
ORIGINS: Final = f"{PARAMETER_PREFIX}WorkerCorsOrigin"
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
CROSS_SITE: Final = "cross-site"


class Visitors:
    """The rule for one door."""

    def __init__(self, api: Api, caller: Mapping[str, str]) -> None:
        guarded = any(route.authorizer for route in api.routes)
        variables = {name for function in api.functions.values() for name in function.environment}
        own_tokens = [name for name in OWN_TOKENS if f"{name}_SECRET_ARN" in variables]
        has_tokens = (guarded and caller.get(TOKENS)) or any(map(caller.get, own_tokens))
        self._open = not has_tokens
        self._public = not guarded and not own_tokens
        self._hosts = {urlsplit(caller[name]).hostname for name in PUBLIC_URLS if caller.get(name)}
        self._origins = {origin.strip() for origin in caller.get(ORIGINS, "").split(",")} - {"", "*"}

    def problem(self, call: Call) -> str:
        """Why a request is refused; empty if it is served."""
        if not self._open:
            return ""
        host = _hostname(f"//{call.header('host')}")
        if not (_is_here(host) or host in self._hosts):
            return "without tokens this door serves only this machine's own host names; use http://127.0.0.1"
        if self._public and call.method in READING:
            return ""
        origin = call.header("origin")
        if origin and not (_is_here(_hostname(origin)) or origin in self._origins):
            return (
                "without tokens this door serves only web pages of localhost; set tokens, or open the page from there"
            )
        if not origin and call.header("sec-fetch-site") == CROSS_SITE:
            return "without tokens this door does not serve requests of another site's page; set tokens"
        return ""


@lru_cache
def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache
def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
