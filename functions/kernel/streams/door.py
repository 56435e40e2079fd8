"""What every stream's answer has in common: its credential, its request id, refusals as JSON."""

import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import Request, Response

from piecework.errors import PieceworkError
from piecework.kernel.errors import KernelError, ServiceUnavailable, UnauthorizedError, ValidationError
from piecework.kernel.model.hosted import HOSTED

MAX_ID_BYTES: Final = 256
MAX_REQUEST_ID_BYTES: Final = 128
MAX_TOOLS: Final = 1_000  # of one connection; each is a row that is written when it connects
Tokens = tuple[tuple[str, str], ...]


def request_id(request: Request) -> str:
    """The caller's own id for the request, if it is usable, else a new one."""
    given = request.headers.get("x-request-id", "")
    return given if 1 <= len(given.encode("latin-1")) <= MAX_REQUEST_ID_BYTES else str(uuid.uuid4())


def authorize(request: Request, tokens: Tokens) -> None:
    """Let in who has a token; everybody, when there is none. Raises UnauthorizedError."""
    sent = request.headers.get("authorization", "").encode("latin-1")
    matches = [hmac.compare_digest(sent, f"Bearer {secret}".encode()) for _, secret in tokens]
    if tokens and not any(matches):
        raise UnauthorizedError


def ids(request: Request, *names: str) -> list[str]:
    """Query parameters that must be there. Raises ValidationError."""
    values = [request.query_params.get(name, "") for name in names]
    if not all(values):
        raise ValidationError(f"{' and '.join(names)} are required")
    for name, value in zip(names, values, strict=True):
        if _bytes_of(value) > MAX_ID_BYTES:
            raise ValidationError(f"{name} must be at most {MAX_ID_BYTES} bytes")
        if value == HOSTED and name == "consumer_id":
            raise ValidationError(f"the consumer_id {HOSTED} stands for hosted agents")
    return values


def tools(request: Request) -> list[str]:
    """The tools that a runner offers; a name that is too long for any call is left out. Raises ValidationError."""
    given = [tool.strip() for tool in request.query_params.get("capabilities", "").split(",")]
    offered = list(dict.fromkeys(tool for tool in given if tool and _bytes_of(tool) <= MAX_ID_BYTES))
    if len(offered) > MAX_TOOLS:
        raise ValidationError(f"capabilities must name at most {MAX_TOOLS} tools")
    return offered


def after(request: Request) -> int:
    """The last event that a reader of a log knows: what it asks for, else what a browser says when it comes again."""
    asked = request.query_params.get("after_sequence")
    return natural(request.headers.get("last-event-id", "") if asked is None else asked)


def natural(text: str) -> int:
    """A number of events; junk is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def cors(request: Request, origins: Sequence[str]) -> dict[str, str]:
    """What lets a page of a configured origin read the answer."""
    origin = request.headers.get("origin", "")
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*"}
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin in origins else {}


def refusal(error: PieceworkError, headers: Mapping[str, str]) -> Response:
    """A refusal before the first frame."""
    if not isinstance(error, KernelError):
        error = ServiceUnavailable("database not reachable")
    body = {"error": error.text, "code": error.code, "details": None}
    content = json.dumps(body, separators=(",", ":")) + "\n"
    return Response(content, error.status, dict(headers), "application/json")


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
