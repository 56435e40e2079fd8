"""Artifacts: evidence bytes addressed by their SHA-256 and a random token, which together are the credential."""

import hashlib
import re
import secrets
from typing import Final, NamedTuple, Protocol

from piecework.errors import NotFound

ARTIFACT_LIMIT: Final = 4 * 1024 * 1024  # bytes; base64 of it still fits Lambda's 6 MB answer
TOKEN_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{22}")
DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


class StoredArtifact(NamedTuple):
    """The path and the digest of a stored artifact."""

    path: str  # "/artifacts/<digest>/<token>"
    digest: str  # lower-case hex SHA-256 of the bytes
    size_bytes: int


class Served(NamedTuple):
    """An artifact's bytes as they were stored."""

    data: bytes
    mime: str


class EvidenceStore(Protocol):
    """Stores evidence bytes under `<digest>/<token>`, each written once."""

    def put(self, digest: str, token: str, data: bytes, mime: str) -> None: ...

    def read(self, digest: str, token: str) -> Served | None: ...


def artifact_token() -> str:
    """A new unguessable token of 128 random bits in 22 URL-safe characters."""
    return secrets.token_urlsafe(16)


def keep(store: EvidenceStore, data: bytes, mime: str, token: str) -> StoredArtifact:
    """Store the bytes and return their address."""
    digest = hashlib.sha256(data).hexdigest()
    store.put(digest, token, data, mime)
    return StoredArtifact(f"/artifacts/{digest}/{token}", digest, len(data))


def serve(store: EvidenceStore, digest: str, token: str) -> Served:
    """The bytes behind an artifact's address.

    Raises:
        NotFound: the address is malformed or unknown, or its artifact has expired.
    """
    well_formed = DIGEST_PATTERN.fullmatch(digest) and TOKEN_PATTERN.fullmatch(token)
    found = store.read(digest, token) if well_formed else None
    if found is None:
        raise NotFound("an artifact does not exist at this address")
    return found
