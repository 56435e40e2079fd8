"""Deliverables: safe names and types, checksums, and signed links that say truly when they end (section 6).

A file's key is `deliverables/<contract>/<task>/g<generation>/<lease>/<index>`: it holds the runner's lease, so a late
runner cannot write over what the record's checksum speaks of. Names never enter keys.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from piecework.executors import Artifact, Log
from piecework.jsons import Json

FILE_LIMIT: Final = 500_000_000  # bytes of one file
MOST_FILES: Final = 100
NAME_CHARACTERS: Final = 127
SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,126}")
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
_NOT_SAFE: Final = re.compile(r"[^A-Za-z0-9._ -]")
_LEADING: Final = re.compile(r"^[^A-Za-z0-9]+")


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
    taken = {file.name.lower() for file in stored}
    for index, artifact in enumerate(artifacts[len(stored) :], len(stored)):
        name = unique_name(safe_name(artifact.name), taken)
        if name != artifact.name:
            log.warning("deliverable_renamed", name=name)
        taken.add(name.lower())
        digest, mime, key = hashlib.sha256(artifact.data), safe_type(artifact.mime), f"{folder}/{index:03d}"
        store.put(key, artifact.data, digest.digest(), mime, disposition(name))
        stored.append(StoredFile(key, name, mime, len(artifact.data), f"sha256:{digest.hexdigest()}"))
    return stored


def safe_name(name: str) -> str:
    """The name with every character outside `A-Z a-z 0-9 . _ space -` replaced, and no way up or out."""
    plain = _NOT_SAFE.sub("_", unicodedata.normalize("NFC", name))
    plain = _LEADING.sub("", re.sub(r"\.{2,}", "_", plain))[:NAME_CHARACTERS].rstrip(" .")
    return plain or "file"


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with ` (2)` and so on before its extension when it is taken; case does not tell names apart."""
    stem, dot, extension = name.rpartition(".")
    stem, ending = (stem, dot + extension) if stem else (name, "")
    number, found = 1, name
    while found.lower() in taken:
        number += 1
        mark = f" ({number})"
        found = f"{stem[: NAME_CHARACTERS - len(mark) - len(ending)]}{mark}{ending}"
    return found


def safe_type(mime: str) -> str:
    """The media type, if it is one that may be served."""
    found = _TYPE.fullmatch(mime)
    return mime if found and found[1] in ALLOWED_TYPES else UNKNOWN_TYPE


def disposition(name: str) -> str:
    """Every file is a download: html, svg and xml must never run under our address."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def base64_digest(sha256: bytes) -> str:
    """A digest in the form that S3 takes and reports."""
    return base64.b64encode(sha256).decode("ascii")
