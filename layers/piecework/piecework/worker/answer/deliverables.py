"""Deliverables: safe names and types, checksums, and signed links that say truly when they end (section 6).

A file's key is `deliverables/<contract>/<task>/g<generation>/<lease>/<index>`: it holds the runner's lease, so a late
runner cannot write over what the record's checksum speaks of. Names never enter keys.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Final, Protocol

from piecework.extend.executors import Artifact, Log
from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.answer.file_names import disposition, safe_name, same_name, unique_name

FILE_LIMIT: Final = 500_000_000  # bytes of one file
MOST_FILES: Final = 100
UNKNOWN_TYPE: Final = "application/octet-stream"
ALLOWED_TYPES: Final = frozenset(
    {
        *("text/plain", "text/csv", "text/markdown", "text/html", "text/xml", "text/calendar"),
        *("application/json", "application/pdf", "application/zip", "application/gzip", "application/xml"),
        *("application/x-ndjson", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        *("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "application/parquet"),
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "image/tiff"),
        *("audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm", "font/woff2", "model/gltf-binary"),
    }
)
_TYPE: Final = re.compile(r"([a-z0-9.+-]+/[a-z0-9.+-]+)(; ?charset=[a-zA-Z0-9-]+)?")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the result's record names it."""

    key: str
    name: str
    mime: str
    size: int
    checksum: str  # "sha256:" and lower-case hex

    def as_item(self) -> dict[str, Json]:
        """The file's output object as it is kept: with its key in place of a link."""
        return {
            "type": "file",
            "name": self.name,
            "key": self.key,
            "mime": self.mime,
            "size": self.size,
            "checksum": self.checksum,
        }


@dataclass(frozen=True, slots=True)
class Link:
    """A signed URL and the moment it stops working."""

    url: str
    expires_at_ms: int


class Deliverables(Protocol):
    """Keeps files privately and signs links to them."""

    def put(self, key: str, data: bytes, sha256: bytes, mime: str, disposition: str) -> None:
        """Store bytes, checked on arrival against their digest."""

    def link(self, key: str) -> Link:
        """A fresh link for one GET after another until it ends."""

    def exists(self, key: str) -> bool: ...


def store_files(
    store: Deliverables, folder: str, artifacts: Sequence[Artifact], log: Log, already: Sequence[StoredFile] = ()
) -> list[StoredFile]:
    """Store every artifact under its index in `folder`; the first ones may be there `already`."""
    stored = list(already)
    taken = {same_name(file.name) for file in stored}
    for index, artifact in enumerate(artifacts[len(stored) :], len(stored)):
        name = unique_name(safe_name(artifact.name), taken)
        if name != artifact.name:
            log.warning("deliverable_renamed", name=name)
        taken.add(same_name(name))
        digest, mime, key = hashlib.sha256(artifact.data), safe_type(artifact.mime), f"{folder}/{index:03d}"
        store.put(key, artifact.data, digest.digest(), mime, disposition(name))
        stored.append(StoredFile(key, name, mime, len(artifact.data), f"sha256:{digest.hexdigest()}"))
    return stored


def safe_type(mime: str) -> str:
    """The media type, if it is one that may be served."""
    found = _TYPE.fullmatch(mime)
    return mime if found and found[1] in ALLOWED_TYPES else UNKNOWN_TYPE


def base64_digest(sha256: bytes) -> str:
    """A digest in the form that S3 takes and reports."""
    return base64.b64encode(sha256).decode("ascii")
