"""Checks evidence, before the answer, for what the kernel refuses (runtime specification 6.1).

Evidence that the kernel would refuse is shortened if it is text and dropped otherwise. The output is never changed.
"""

import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Final

from piecework.errors import BadRequest
from piecework.extend.executors import Evidence
from piecework.extend.outgoing import holds_kernel_number
from piecework.jsons import MAX_DEPTH_READ, Json, canonical, check_depth, loads
from piecework.runtime.execute.defaults import INLINE_EVIDENCE_BYTES
from piecework.runtime.execute.messages import EvidencePolicy

TOTAL_BYTES: Final = 120_000  # escaped JSON of all evidence; the kernel's signed event may hold 131,072
VERDICT_UNITS: Final = 3  # of the verify budget: one for the verdict, two for the votes
JSON_MIME: Final = "application/json"
SHORTENED: Final = "\n[shortened]"

_MEDIA_TYPES: Final = ("image/", "video/", "audio/")
_DATA_URI: Final = re.compile(r"data:(?:image|video|audio)/", re.IGNORECASE)
_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_=-]{64,}")
_SNIFFED: Final = 32  # characters that are decoded of a base64 run; file signatures lie within their 24 bytes
_SIGNATURES: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1a\x45\xdf\xa3", b"OggS", b"fLaC", b"ID3")
_RIFF_KINDS: Final = (b"WAVE", b"WEBP", b"AVI ")


def admit(evidence: Iterable[Evidence], policy: EvidencePolicy, room: int = TOTAL_BYTES) -> list[bytes]:
    """The evidence that the kernel accepts, in order and as canonical JSON, within `room` bytes."""
    limit = min(policy.max_inline_evidence_bytes, INLINE_EVIDENCE_BYTES)
    admitted: list[bytes] = []
    for item in evidence:
        fitting = _fit(item, policy.inline_mime_allowlist, limit)
        if fitting is None:
            continue
        raw = canonical({"mime": fitting.mime, "content": fitting.content})
        size = len(raw) + 1
        if size <= room:
            room -= size
            admitted.append(raw)
    return admitted


def admit_refs(refs: Sequence[dict[str, Json]], verify_cost_units: int | None) -> list[bytes]:
    """The references, as canonical JSON, that fit the kernel's event and the verify budget.

    The budget pays one unit per distinct digest.
    """
    affordable = len(refs) if verify_cost_units is None else max(0, verify_cost_units - VERDICT_UNITS)
    room, digests, admitted = TOTAL_BYTES - len("[]"), set[str](), list[bytes]()
    for ref in refs:
        raw = canonical(ref)
        size = len(raw) + 1
        if size <= room and (str(ref["digest"]) in digests or len(digests) < affordable):
            room -= size
            digests.add(str(ref["digest"]))
            admitted.append(raw)
    return admitted


def holds_media(content: str) -> bool:
    """Whether the kernel's sniffing would find embedded media in a text."""
    if _DATA_URI.search(content):
        return True
    return any(_is_media(run.group()) for run in _BASE64_RUN.finditer(content))


def _fit(item: Evidence, allowed: Sequence[str], limit: int) -> Evidence | None:
    if item.mime not in allowed or item.mime.lower().startswith(_MEDIA_TYPES) or holds_media(item.content):
        return None
    try:
        raw = item.content.encode("utf-8")
        if item.mime == JSON_MIME:
            return item if len(raw) <= limit and _is_read(raw) else None
    except (UnicodeEncodeError, BadRequest):
        return None
    return item if len(raw) <= limit else _shorten(item, raw, limit)


def _is_read(raw: bytes) -> bool:
    """Whether the codecs of all kernels read this JSON. Raises BadRequest where the strictest does not."""
    check_depth(raw, MAX_DEPTH_READ)
    return not holds_kernel_number(loads(raw))


def _shorten(item: Evidence, raw: bytes, limit: int) -> Evidence | None:
    kept = limit - len(SHORTENED)
    if kept <= 0:
        return None
    return Evidence(item.mime, raw[:kept].decode("utf-8", "ignore") + SHORTENED)


def _is_media(run: str) -> bool:
    head = run.replace("=", "")[:_SNIFFED].replace("-", "+").replace("_", "/")
    data = binascii.a2b_base64(head + "A" * (-len(head) % 4))
    is_riff = data.startswith(b"RIFF") and data[8:12] in _RIFF_KINDS
    return data.startswith(_SIGNATURES) or data[4:8] == b"ftyp" or is_riff
