"""A client of the kernel door for commands: address, credential, requests, and an execution's event stream."""

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from piecework.jsons import Json
from piecework.net.addresses import AddressRefused, chosen_target
from piecework.net.http_client import CallFailed, HttpClient, Request
from piecework_cli.output import CommandError
from piecework_cli.stacks import output_of
from piecework_cli.target import local_url

KERNEL_DISTANCE: Final = 2  # of its port from the base port, as `make run` sets them
REQUEST_SECONDS: Final = 40.0  # more than the edge's 29 s
BODY_LIMIT: Final = 8 * 1024 * 1024  # bytes of an answer; Lambda's own limit is 6 MB
SILENCE_SECONDS: Final = 20.0  # of a stream; three heartbeats and more
RECONNECTS: Final = 10  # in a row without an event
PAUSE_SECONDS: Final = 1.0
OUTPUT: Final = "KernelUrl"  # of a deployed stack
TERMINAL: Final = frozenset({"execution.completed", "execution.failed", "execution.cancelled"})
OK: Final = 200
NO_CONTENT: Final = 204
FIRST_REFUSAL: Final = 300


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """`--kernel` and `--token`, for every group that speaks to the kernel door."""
    parser.add_argument(
        "--kernel", metavar="URL", default=os.environ.get("PIECEWORK_KERNEL_URL"), help="the kernel door's base URL"
    )
    parser.add_argument(
        "--token",
        default=os.environ.get("PIECEWORK_KERNEL_TOKEN"),
        help="the kernel door's token; better set PIECEWORK_KERNEL_TOKEN",
    )


class NothingNewer(Exception):
    """The execution has ended, and the caller has read its whole log."""


class Refusal(CommandError):
    """The kernel refused the request; the message is the kernel's."""


class KernelClient:
    """One kernel door."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        try:
            self._target = chosen_target(self.url)
        except AddressRefused:
            raise CommandError(
                f"{url} is not the URL of a kernel door; such a URL has the form http://127.0.0.1:8789"
            ) from None
        self._base = urlsplit(self.url).path.removesuffix("/v0")  # each request's path starts with it
        self._http = HttpClient(body_limit=BODY_LIMIT)
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})

    @classmethod
    def of(cls, options: argparse.Namespace) -> "KernelClient":
        """The door that the command line names: a URL's, a stack's, or this machine's."""
        if options.url != os.environ.get("PIECEWORK_WORKER_URL"):
            raise CommandError(
                "--url names a worker; write `--kernel URL` after the group: piecework exec --kernel URL ls"
            )
        url = options.kernel or (_deployed(options.stack) if options.stack else local_url(KERNEL_DISTANCE))
        return cls(url, options.token)

    def ask(self, method: str, path: str, body: Json = None) -> Any:
        """Send a request and return the JSON answer.

        Raises:
            Refusal: the kernel refused it.
            CommandError: the address does not answer, or the answer is not a kernel's.
        """
        raw = None if body is None else json.dumps(body).encode()
        try:
            answer = self._http.send(self._request(method, path, raw), REQUEST_SECONDS)
        except CallFailed as failed:
            raise CommandError(
                f"{self.url} does not answer ({failed.why}); start `make run`, or name a door with --kernel"
            ) from None
        return self._document(answer.status, answer.body)

    def follow(self, execution_id: str, after: int) -> Iterator[dict[str, Any]]:
        """The events after that sequence until the terminal one, empty if the log ended before; reconnects when the
        stream breaks.

        Raises:
            Refusal: the execution does not exist, or the token is refused.
            CommandError: the kernel has been out of reach for too long.
        """
        failures = 0
        while failures < RECONNECTS:
            try:
                for event in self._stream(
                    f"/v0/executions/{quote(execution_id, safe='')}/stream?after_sequence={after}"
                ):
                    if event["sequence"] <= after:
                        continue
                    after, failures = event["sequence"], 0
                    yield event
                    if event["type"] in TERMINAL:
                        return
            except NothingNewer:
                return
            except CallFailed:
                pass  # the next round reconnects
            failures += 1
            time.sleep(PAUSE_SECONDS)
        raise CommandError(f"{self.url}: the stream broke {RECONNECTS} times without an event")

    def _stream(self, path: str) -> Iterator[dict[str, Any]]:
        with self._http.stream(self._request("GET", path), SILENCE_SECONDS) as (status, parts):
            if status == NO_CONTENT:
                raise NothingNewer
            if status != OK:
                self._document(status, b"".join(parts))
            for line in _lines(parts):
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))

    def _document(self, status: int, text: bytes) -> Any:
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if status < FIRST_REFUSAL and document is not None:
            return document
        if not _is_kernels(document):
            raise CommandError(
                f"{self.url} is not a kernel door (it answers {status}); `make run` serves one on port 8789"
            )
        raise Refusal(f"{status}: {document['error']}")

    def _request(self, method: str, path: str, body: bytes | None = None) -> Request:
        return Request(method, replace(self._target, path=self._base + path), self._headers, body)


def at(execution_id: str, *rest: str) -> str:
    """The path of an execution, or of a resource below it."""
    return "/".join(("/v0/executions", quote(execution_id, safe=""), *rest))


def query(members: Mapping[str, Any], labels: Sequence[str] = ()) -> str:
    """A query string of the members that are set."""
    given = [(name, value) for name, value in members.items() if value not in (None, "")]
    return f"?{urlencode([*given, *(('label', label) for label in labels)])}"


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _deployed(stack: str) -> str:
    url = output_of(stack, OUTPUT)
    if not url:
        raise CommandError(f"the stack {stack} does not have a kernel door; deploy it with DeployKernelDoor=true")
    return url


def _is_kernels(document: object) -> bool:
    """Whether an error body has the kernel door's form."""
    return isinstance(document, dict) and {"error", "code", "details"} <= document.keys()
