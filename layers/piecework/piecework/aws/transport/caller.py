"""One call to a service: signed, sent, answered; sent again where that may help.

sign → send → read │ an answer: its body, or what the service refused
  ↑                │ no answer, throttled, 5xx: pause, within the budget, as the same request
  └────────────────┤ the clocks differ: with the service's time, at once
                   │ the keys have ended: with new ones, at once
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import loads
from secrets import token_hex
from time import sleep as real_sleep
from time import time
from typing import Any, Final, NamedTuple

from piecework.aws.transport.connections import Answer, Connections, Limits, Raw, unpacked
from piecework.aws.transport.credentials import Credentials
from piecework.aws.transport.endpoints import Origin
from piecework.aws.transport.failures import AwsFailure, NoAnswer, NotConfigured, ServiceRefused
from piecework.aws.transport.retries import ATTEMPTS, Budget, may_pass, pause_after
from piecework.aws.transport.signing import Scope, hashed, moment_of, signed

USER_AGENT: Final = "piecework"
NOTICED_SKEW_SECONDS: Final = 240
SKEWED: Final = frozenset(
    {
        *("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "InvalidSignatureException"),
        *("SignatureDoesNotMatch", "AuthFailure"),
        "403",  # an answer to HEAD names nothing
    }
)
ENDED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
# Lambda stops a function that calls itself through a queue by this header, so every request hands it on.
TRACE: Final = "_X_AMZN_TRACE_ID"
TRACE_SAFE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~=;:+&[]{}\"',")


class Request(NamedTuple):
    """A request to a service; path and query are escaped already, names of headers are lower-case."""

    operation: str
    origin: Origin
    region: str
    service: str
    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Clock:
    """The time as AWS sees it, which one answer with another date can correct for all clients."""

    def __init__(self, now: Callable[[], float] = time) -> None:
        self._now = now
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._now() + self._ahead

    def corrected(self, answer: Mapping[str, str]) -> bool:
        """Whether the answer's date is so far off that its request could be refused for that; ours is then set."""
        stated = _epoch(answer.get("date", ""))
        if stated is None or abs(stated - self()) < NOTICED_SKEW_SECONDS:
            return False
        self._ahead = stated - self._now()
        return True


class Caller:
    """Sends the requests of one service; safe for many threads. `env` is looked at with each request."""

    def __init__(
        self,
        env: Mapping[str, str],
        credentials: Credentials,
        limits: Limits,
        clock: Clock,
        sleep: Callable[[float], None] = real_sleep,
    ) -> None:
        self.connections = Connections(limits, env)
        self.credentials = credentials
        self.clock = clock
        self._env, self._limits, self._sleep = env, limits, sleep
        self._budget = Budget()

    def call(self, request: Request, read: Callable[[Request, Answer], Any]) -> Any:
        """What `read` makes of the answer to a request.

        Raises:
            ServiceRefused: raised by `read` for an answer that is an error, and not mended by sending it again.
            NoAnswer: no whole answer came.
            NotConfigured: the request cannot be signed or written.
        """
        invocation, retries, taken, is_mended = token_hex(16), 0, 0, False
        while True:
            try:
                answer = read(request, self.sent(request, invocation, retries))
                self._budget.give(taken)
                return answer
            except AwsFailure as failure:
                failure.retries = retries
                if not is_mended and self._is_mended(failure):
                    is_mended = True  # once, and at once: nothing was done
                    continue
                taken = self._budget.take(failure) if retries + 1 < ATTEMPTS and may_pass(failure) else 0
                if not taken:
                    raise
                self._sleep(pause_after(failure, retries))
            retries += 1

    def sent(self, request: Request, invocation: str, retries: int) -> Answer:
        """Send a request once; every request to AWS goes through here. Raises NoAnswer, NotConfigured."""
        raw = self._raw(request, invocation, retries)
        try:
            return self.connections.exchange(request.origin, raw)
        except OSError as error:
            raise NoAnswer(f"{request.operation}: {type(error).__name__}: {error}") from error

    def _raw(self, request: Request, invocation: str, retries: int) -> Raw:
        keys = self.credentials.keys()
        payload = hashed(request.body)
        given = {"host": request.origin.host_header, **request.headers}
        if request.service == "s3":
            given["x-amz-content-sha256"] = payload
        scope = Scope(moment_of(self.clock()), request.region, request.service)
        headers = signed(request.method, request.path, request.query, given, payload, keys, scope)
        headers |= {
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            "amz-sdk-invocation-id": invocation,
            "amz-sdk-request": f"attempt={retries + 1}; max={ATTEMPTS}",
            **self._trace(),
        }
        if request.body or request.method in ("POST", "PUT"):
            headers["content-length"] = str(len(request.body))
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        if any(set(value) & {"\r", "\n", "\0"} for value in headers.values()):
            raise NotConfigured(f"{request.operation}: a header has a line break")
        target = f"{request.path}?{request.query}" if request.query else request.path
        head = f"{request.method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
        try:
            return Raw(request.method, head.encode("latin-1"), request.body)
        except UnicodeEncodeError:
            raise NotConfigured(f"{request.operation}: a header has characters beyond Latin-1") from None

    def _trace(self) -> dict[str, str]:
        trace = self._env.get(TRACE)
        if not trace or "AWS_LAMBDA_FUNCTION_NAME" not in self._env:
            return {}
        return {"x-amzn-trace-id": "".join(c if c in TRACE_SAFE else f"%{ord(c):02X}" for c in trace if c.isascii())}

    def _is_mended(self, failure: AwsFailure) -> bool:
        """Whether the cause of a refusal is gone: a clock that was off, or keys that have ended."""
        if not isinstance(failure, ServiceRefused):
            return False
        if failure.code in SKEWED and self.clock.corrected(failure.headers):
            return True
        return failure.code in ENDED and self.credentials.renew()


def refusal(request: Request, answer: Answer, code: str, message: str, parsed: Mapping[str, Any]) -> ServiceRefused:
    """The error that an answer is."""
    headers = answer.headers
    request_id = headers.get("x-amzn-requestid") or headers.get("x-amz-request-id") or ""
    return ServiceRefused(
        code,
        message,
        operation=request.operation,
        status=answer.status,
        request_id=request_id,
        answer=parsed,
        headers=headers,
    )


def json_answer(request: Request, answer: Answer, limit: int) -> dict[str, Any]:
    """What a service that speaks JSON answered. Raises ServiceRefused, NoAnswer."""
    try:
        text = unpacked(answer, limit)
    except OSError as error:
        raise NoAnswer(f"{request.operation}: {error}") from error
    found = _members(text)
    if answer.status == 200:
        if found is None:
            raise NoAnswer(f"{request.operation}: the answer is not an object of JSON")
        return found
    found = found or {}
    raise refusal(request, answer, _code(answer, found), str(found.get("message") or found.get("Message") or ""), found)


def _members(text: bytes) -> dict[str, Any] | None:
    """The members of a JSON object; None for anything else, as for an empty body, which no service sends."""
    try:
        parsed = loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _code(answer: Answer, found: Mapping[str, Any]) -> str:
    """The service's name for what went wrong: for SQS that of its older protocol, as SDKs give it."""
    older = answer.headers.get("x-amzn-query-error", "").partition(";")[0]
    stated = answer.headers.get("x-amzn-errortype") or found.get("__type") or found.get("code") or str(answer.status)
    return older or str(stated).partition(":")[0].rpartition("#")[2]


def _epoch(date: str) -> float | None:
    """A date of HTTP as epoch seconds."""
    from calendar import timegm
    from time import strptime

    try:
        return float(timegm(strptime(date, "%a, %d %b %Y %H:%M:%S GMT")))
    except ValueError:
        return None
