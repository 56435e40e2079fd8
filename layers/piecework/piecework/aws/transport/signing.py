"""Signature version 4, in headers and in links.

The signed headers are the host, the type of the content and all whose names begin with `x-amz-`; others, such as the
trace, may be changed on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from time import gmtime, strftime
from typing import Final, NamedTuple

from piecework.aws.transport.credentials import Keys

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
SIGNED: Final = frozenset({"host", "content-type"})


class Scope(NamedTuple):
    """What a signature is good for: a moment, a region and a service."""

    moment: str  # YYYYMMDDTHHMMSSZ
    region: str
    service: str

    @property
    def text(self) -> str:
        """The scope as it is signed."""
        return f"{self.moment[:8]}/{self.region}/{self.service}/aws4_request"


def moment_of(epoch_seconds: float) -> str:
    """A time as signatures state it."""
    return strftime("%Y%m%dT%H%M%SZ", gmtime(epoch_seconds))


def quoted(text: str, keep: str = "") -> str:
    """A text as a part of a URL: every byte is escaped but letters, digits, `-._~` and what is to be kept."""
    kept = PLAIN | frozenset(keep.encode())
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def query_of(parameters: Mapping[str, str]) -> str:
    """A query, in the order in which it is signed."""
    return "&".join(sorted(f"{quoted(name)}={quoted(value)}" for name, value in parameters.items()))


def signed(
    method: str, path: str, query: str, headers: Mapping[str, str], payload: str, keys: Keys, scope: Scope
) -> dict[str, str]:
    """The headers of a request with its date, its token and its signature; `payload` is the hash of its body.

    Names of the given headers are lower-case, with the host among them.
    """
    dated = {**headers, "x-amz-date": scope.moment, **({"x-amz-security-token": keys.token} if keys.token else {})}
    named = sorted(name for name in dated if name in SIGNED or name.startswith("x-amz-"))
    lines = "".join(f"{name}:{' '.join(dated[name].split())}\n" for name in named)
    names = ";".join(named)
    signature = _signature(f"{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}", keys, scope)
    credential = f"Credential={keys.id}/{scope.text}"
    return {**dated, "authorization": f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"}


def link_query(path: str, host: str, keys: Keys, scope: Scope, seconds: int) -> str:
    """The query of a link to GET a path of a host for so many seconds."""
    parameters = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{keys.id}/{scope.text}",
        "X-Amz-Date": scope.moment,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": keys.token} if keys.token else {}),
    }
    query = query_of(parameters)
    signature = _signature(f"GET\n{path}\n{query}\nhost:{host}\n\nhost\n{UNSIGNED}", keys, scope)
    return f"{query}&X-Amz-Signature={signature}"


def hashed(body: bytes) -> str:
    """The hash of a body, as signatures state it."""
    return sha256(body).hexdigest()


def _signature(canonical: str, keys: Keys, scope: Scope) -> str:
    text = f"{ALGORITHM}\n{scope.moment}\n{scope.text}\n{hashed(canonical.encode())}"
    return digest(
        _signing_key(keys.secret, scope.moment[:8], scope.region, scope.service), text.encode(), "sha256"
    ).hex()


@lru_cache(maxsize=32)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = digest(key, part.encode(), "sha256")
    return key
