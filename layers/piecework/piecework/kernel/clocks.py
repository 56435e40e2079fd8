"""Ids and times of the kernel door: UUIDv7 and RFC 3339 (specification sections 1 and 2.1)."""

import hashlib
import json
from datetime import UTC, datetime
from os import urandom
from typing import Final

ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def new_id(now_ms: int) -> str:
    """A UUIDv7: 48 bits of time, 74 random ones."""
    drawn = int.from_bytes(urandom(10))
    return _uuid(f"{now_ms & (1 << 48) - 1:012x}{0x7000 | drawn >> 68:04x}{1 << 63 | drawn & (1 << 62) - 1:016x}")


def named_id(*names: str) -> str:
    """A UUIDv8 that follows from names: 122 bits of their digest."""
    drawn = int.from_bytes(hashlib.sha256(json.dumps(names).encode()).digest()[:16])
    return _uuid(f"{drawn & ~(0xF << 76) & ~(3 << 62) | 8 << 76 | 2 << 62:032x}")


def _uuid(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def rfc3339(at_ms: int | None) -> str:
    """A time in UTC with `Z`; None is the zero time."""
    if at_ms is None:
        return ZERO_TIME
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def millis(text: str) -> int:
    """The milliseconds of a time that `rfc3339` wrote."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
