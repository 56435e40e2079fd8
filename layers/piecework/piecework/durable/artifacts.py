"""Artifacts: evidence bytes addressed by their SHA-256 and a random token, which together need no other credential."""

import hashlib
import re
import secrets
from typing import Final, NamedTuple, Protocol

from piecework.errors import NotFound

ARTIFACT_LIMIT: Final = 4 * 1024 * 1024  # bytes; base64 of it still fits Lambda's 6 MB answer
TOKEN_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{22}")
DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


class StoredArtifact(NamedTuple):
    """Where an artifact can be fetched, and what it is."""

    path: str  # "/artifacts/<digest>/<token>"
    digest: str  # lower-case hex SHA-256 of the bytes
    size_bytes: int


class Served(NamedTuple):
    """An artifact's bytes as they were stored."""

    data: bytes
    mime: str


class EvidenceStore(Protocol):
    """Keeps evidence bytes under `<digest>/<token>`, each written once."""

    def put(self, digest: str, token: str, data: bytes, mime: str) -> None: ...

    def read(self, digest: str, token: str) -> Served | None: ...


def artifact_token() -> str:
    """A fresh unguessable token of 128 random bits in 22 URL-safe characters."""
    return secrets.token_urlsafe(16)


def keep(store: EvidenceStore, data: bytes, mime: str, token: str) -> StoredArtifact:
    """Store the bytes and say where they can be fetched."""
    digest = hashlib.sha256(data).hexdigest()
    store.put(digest, token, data, mime)
    return StoredArtifact(f"/artifacts/{digest}/{token}", digest, len(data))


def serve(store: EvidenceStore, digest: str, token: str) -> Served:
    """The bytes behind an artifact's address.

    Raises:
        NotFound: the address is malformed, unknown, or its artifact has aged out.
    """
    well_formed = DIGEST_PATTERN.fullmatch(digest) and TOKEN_PATTERN.fullmatch(token)
    found = store.read(digest, token) if well_formed else None
    if found is None:
        raise NotFound("no artifact at this address")
    return found
