"""The keys that sign: from the environment, or from the endpoint that Lambda names to functions with SnapStart.

Keys from the endpoint end. They are asked for again 15 minutes before; until 10 minutes before their end a failed
renewal leaves the old ones in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import loads
from threading import Lock
from time import time
from typing import Any, Final, NamedTuple

from piecework.aws.transport.connections import Connections, Limits, Raw
from piecework.aws.transport.endpoints import Origin, origin_of
from piecework.aws.transport.failures import AwsFailure, NoAnswer, NotConfigured

SOON_SECONDS: Final = 900  # before the end: renew, or go on with the old ones
NOW_SECONDS: Final = 600  # before the end: renew, or fail
TRIES: Final = 3
LIMITS: Final = Limits(connect_seconds=2.0, read_seconds=2.0, answer_bytes=64 * 1024)
CONTAINER: Final = "http://169.254.170.2"  # where a relative address leads
PLAIN_HOSTS: Final = frozenset(  # the only ones that keys may be asked for without TLS
    {"localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
)


class Keys(NamedTuple):
    """An access key with its secret; `token` is empty and `ends` None for those of a user."""

    id: str
    secret: str
    token: str = ""
    ends: float | None = None  # epoch seconds


class Credentials:
    """The keys of this environment; safe for many threads. No connection is opened before they are asked for."""

    def __init__(self, env: Mapping[str, str], now: Callable[[], float] = time) -> None:
        self._env, self._now = env, now
        self._lock = Lock()
        self._fetched: Keys | None = None
        self._connections = Connections(LIMITS, env)

    def keys(self) -> Keys:
        """Keys that are good for the next minutes.

        Raises:
            NotConfigured: the environment has neither keys nor an endpoint for them.
            NoAnswer: the endpoint that hands them out does not answer.
        """
        own = self._from_environment()
        if own:
            return own
        kept = self._fetched
        if kept and not self._ends_within(kept, SOON_SECONDS):
            return kept
        if kept and not self._ends_within(kept, NOW_SECONDS) and self._lock.locked():
            return kept  # another thread renews them
        with self._lock:
            kept = self._fetched
            if kept is None or self._ends_within(kept, SOON_SECONDS):
                kept = self._fetched = self._renewed(kept)
            return kept

    def renew(self) -> bool:
        """Ask for others with the next request, because these have ended; False for keys that cannot be renewed."""
        with self._lock:
            self._fetched = None
        return self._from_environment() is None

    def _from_environment(self) -> Keys | None:
        given = self._env.get
        key, secret = given("AWS_ACCESS_KEY_ID"), given("AWS_SECRET_ACCESS_KEY")
        if not key:
            return None
        if not secret:
            raise NotConfigured("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY")
        return Keys(key, secret, given("AWS_SESSION_TOKEN") or given("AWS_SECURITY_TOKEN") or "")

    def _ends_within(self, keys: Keys, seconds: int) -> bool:
        return keys.ends is not None and keys.ends - self._now() < seconds

    def _renewed(self, kept: Keys | None) -> Keys:
        try:
            return self._asked()
        except AwsFailure:
            if kept is None or self._ends_within(kept, NOW_SECONDS):
                raise
            return kept

    def _asked(self) -> Keys:
        origin, path = self._endpoint()
        token = self._authorization()
        lines = (f"GET {path} HTTP/1.1", f"Host: {origin.host_header}", "Accept: application/json", "Connection: close")
        head = "\r\n".join((*lines, *((f"Authorization: {token}",) if token else ()), "", ""))
        failure = NoAnswer("the endpoint for credentials does not answer")
        for _ in range(TRIES):
            try:
                answer = self._connections.exchange(origin, Raw("GET", head.encode("latin-1")))
            except OSError as error:
                failure = NoAnswer(f"the endpoint for credentials does not answer: {type(error).__name__}")
                continue
            if answer.status == 200:
                return _read(answer.body)
            failure = NoAnswer(f"the endpoint for credentials answered {answer.status}")
        raise failure

    def _endpoint(self) -> tuple[Origin, str]:
        relative, full = map(
            self._env.get, ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
        )
        if not relative and not full:
            raise NotConfigured(
                "AWS credentials are missing: the environment has neither keys nor an endpoint for them"
            )
        origin, path = origin_of(f"{CONTAINER}{relative}" if relative else str(full))
        if not origin.is_tls and origin.host not in PLAIN_HOSTS:
            raise NotConfigured("AWS_CONTAINER_CREDENTIALS_FULL_URI leads to a host that needs https")
        return origin, path or "/"

    def _authorization(self) -> str:
        """The token of the endpoint; its file is read each time, because it is written anew."""
        place = self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if place:
            try:
                with open(place, encoding="utf-8") as file:
                    token = file.read().strip()
            except OSError as error:
                raise NotConfigured("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read") from error
        else:
            token = self._env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if "\r" in token or "\n" in token:
            raise NotConfigured("the token for the endpoint for credentials has a line break")
        return token


def _read(body: bytes) -> Keys:
    try:
        given: Mapping[str, Any] = loads(body)
        key, secret, token = given["AccessKeyId"], given["SecretAccessKey"], given.get("Token") or ""
        ends = given.get("Expiration")
        if not all(isinstance(each, str) for each in (key, secret, token)):
            raise TypeError("a part of the keys is not a text")
        return Keys(key, secret, token, _epoch(ends) if ends else None)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoAnswer("the endpoint for credentials answered something else") from None


def _epoch(text: str) -> float:
    from datetime import UTC, datetime

    stated = datetime.fromisoformat(text)
    return (stated if stated.tzinfo else stated.replace(tzinfo=UTC)).timestamp()
