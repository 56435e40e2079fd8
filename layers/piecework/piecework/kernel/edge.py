"""What both functions of the kernel door do with every request (specification 2.1): ids, credentials, CORS, refusals.

No web framework is imported here; both functions bring their own requests and answers.
"""

import hmac
import json
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from piecework.edge.tokens import Tokens
from piecework.errors import PieceworkError, Unavailable
from piecework.jsons import Json
from piecework.kernel.errors import Internal, Invalid, KernelError, ServiceUnavailable, Unauthorized

ID_BYTES: Final = 256
MAX_REQUEST_ID_BYTES: Final = 128
MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})", re.ASCII)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
QUERY_DIGITS: Final = 18  # more than any number that means something


def authorize(sent: str, tokens: Tokens) -> str:
    """Admit a caller with a token; every caller, if the door has no tokens. Every token is compared, in constant time.

    Returns the token's name, or an empty text if the door has no tokens.

    Raises:
        Unauthorized: no `Authorization` header, another scheme, or a secret that is not a token's.
    """
    credential = sent.encode("latin-1", "replace")
    matches = [name for name, secret in tokens if hmac.compare_digest(credential, f"Bearer {secret}".encode())]
    if tokens and not matches:
        raise Unauthorized
    return matches[0] if matches else ""


def request_id(given: str) -> str:
    """The caller's own id for the request if it is usable, else a new one."""
    usable = 1 <= len(given.encode("latin-1", "replace")) <= MAX_REQUEST_ID_BYTES and not set("\r\n") & set(given)
    return given if usable else str(uuid.uuid4())


def allowed_origin(origin: str, origins: Sequence[str]) -> dict[str, str]:
    """The headers that let a page of a configured origin read the answer; none for any other page."""
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*"}
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin in origins else {}


def refusal_of(error: PieceworkError) -> tuple[int, dict[str, Json]]:
    """The status and the body of a refusal."""
    known = error if isinstance(error, KernelError) else _known(error)
    return known.status, {"error": known.text, "code": known.code, "details": known.details}


def line(content: Json) -> bytes:
    """Compact JSON and a newline; escaped only where a text holds what UTF-8 cannot."""
    try:
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def natural(text: str | None, default: int, most: int | None = None) -> int:
    """A query parameter that counts: what does not parse or is negative is the default, what is too large the most."""
    digits = (text or "").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return default
    value = int(digits[:QUERY_DIGITS]) if len(digits) <= QUERY_DIGITS else 10**QUERY_DIGITS
    return value if most is None else min(value, most)


def moment(name: str, text: str | None) -> int | None:
    """A query parameter that is an RFC 3339 time, as the first millisecond that is not earlier; None without one.

    Raises:
        Invalid: it is not such a time.
    """
    if not text:
        return None
    try:
        if not MOMENT.fullmatch(text):
            raise ValueError
        micros = (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} must be an RFC 3339 time, as 2026-03-02T08:00:00Z") from None
    return max(0, -(-micros // 1_000))


def checked_id(name: str, text: str) -> str:
    """Raises Invalid when an id in a path or a query is too long."""
    if is_too_long(text):
        raise Invalid(f"{name} must be at most {ID_BYTES} bytes")
    return text


def is_too_long(text: str) -> bool:
    """Whether a text has more bytes than an id may have."""
    return len(text.encode("utf-8", "surrogatepass")) > ID_BYTES


def _known(error: PieceworkError) -> KernelError:
    if isinstance(error, Unavailable):
        return ServiceUnavailable("database not reachable")
    return Invalid(error.message) if error.code == "bad_request" else Internal()
