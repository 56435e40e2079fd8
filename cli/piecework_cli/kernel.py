"""The kernel door as commands see it: its address, its credential, requests, and an execution's stream of events."""

import argparse
import http.client
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from piecework.jsons import Json
from piecework_cli.output import CommandError
from piecework_cli.stacks import output_of
from piecework_cli.target import local_url

KERNEL_DISTANCE: Final = 2  # of its port from the base port, as `make run` sets them
REQUEST_SECONDS: Final = 40.0  # more than the edge's 29
SILENCE_SECONDS: Final = 20.0  # of a stream; three heartbeats and more
RECONNECTS: Final = 10  # in a row that brought no event
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
        "--token", default=os.environ.get("PIECEWORK_KERNEL_TOKEN"), help="its secret; better in PIECEWORK_KERNEL_TOKEN"
    )


class NothingNewer(Exception):
    """The execution has ended, and all of its log was told."""


class Refusal(CommandError):
    """The kernel's answer is no; the message is its own."""


class KernelClient:
    """One kernel door."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"{url} is not the URL of a kernel door; it reads like http://127.0.0.1:8789")
        self.url, self._host, self._tls = url.rstrip("/"), parts.netloc, parts.scheme == "https"
        self._base = parts.path.rstrip("/").removesuffix("/v0")  # requests name it themselves
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})

    @classmethod
    def of(cls, options: argparse.Namespace) -> "KernelClient":
        """The door that the command line names: an URL, a stack's, or this machine's."""
        if options.url != os.environ.get("PIECEWORK_WORKER_URL"):
            raise CommandError(
                "--url names a worker; write `--kernel URL` after the group: piecework exec --kernel URL ls"
            )
        url = options.kernel or (_deployed(options.stack) if options.stack else local_url(KERNEL_DISTANCE))
        return cls(url, options.token)

    def ask(self, method: str, path: str, body: Json = None) -> Any:
        """The JSON that a request is answered with.

        Raises:
            Refusal: the kernel refuses it.
            CommandError: nobody answers, or not as a kernel does.
        """
        raw = None if body is None else json.dumps(body).encode()
        try:
            with closing(self._connection(REQUEST_SECONDS)) as connection:
                connection.request(method, self._base + path, raw, self._headers)
                answer = connection.getresponse()
                text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(
                f"{self.url} does not answer ({type(error).__name__}); start `make run`, or name a door with --kernel"
            ) from None
        return self._document(answer.status, text)

    def follow(self, execution_id: str, after: int) -> Iterator[dict[str, Any]]:
        """Every event after that sequence until the terminal one, none if that was told before; a stream that breaks is
        taken up where it was.

        Raises:
            Refusal: there is no such execution, or the token is refused.
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
            except (OSError, http.client.HTTPException):
                pass  # taken up again below
            failures += 1
            time.sleep(PAUSE_SECONDS)
        raise CommandError(f"{self.url}: the stream broke {RECONNECTS} times without an event")

    def _stream(self, path: str) -> Iterator[dict[str, Any]]:
        with closing(self._connection(SILENCE_SECONDS)) as connection:
            connection.request("GET", self._base + path, headers=self._headers)
            answer = connection.getresponse()
            if answer.status == NO_CONTENT:
                raise NothingNewer
            if answer.status != OK:
                self._document(answer.status, answer.read())
            for line in answer:
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

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        return kind(self._host, timeout=seconds)


def at(execution_id: str, *rest: str) -> str:
    """The path of an execution, or of something below it."""
    return "/".join(("/v0/executions", quote(execution_id, safe=""), *rest))


def query(members: Mapping[str, Any], labels: Sequence[str] = ()) -> str:
    """A query string of the members that are there."""
    given = [(name, value) for name, value in members.items() if value not in (None, "")]
    return f"?{urlencode([*given, *(('label', label) for label in labels)])}"


def _deployed(stack: str) -> str:
    url = output_of(stack, OUTPUT)
    if not url:
        raise CommandError(f"the stack {stack} has no kernel door; deploy it with DeployKernelDoor=true")
    return url


def _is_kernels(document: object) -> bool:
    """Whether an error body is one that a kernel door writes."""
    return isinstance(document, dict) and {"error", "code", "details"} <= document.keys()
