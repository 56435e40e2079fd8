"""GET /console/…: the page at every address of a view, and the files that the page is made of.

Files are named by a hash of all of them, `/console/static/<hash>/…`, and kept. The page is asked for each time.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext, Telemetry
from piecework.errors import Internal, MethodNotAllowed, NotFound, PieceworkError, SettingsError
from piecework.ops.console.policy import headers
from piecework.ops.door import NO_STORE, error_response

PAGE: Final = "index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
METHODS: Final = ("GET", "HEAD")
FOR_GOOD: Final = "public, max-age=31536000, immutable"
EACH_TIME: Final = "no-cache"
HASH_CHARACTERS: Final = 16
STATIC: Final = "static/"
VIEW: Final = re.compile(r"(?:[A-Za-z0-9_.~-]{1,128}/){0,8}[A-Za-z0-9_.~-]{0,128}")  # what no browser writes otherwise
FIRST: Final = "console/now"  # an API does not pass `/console/` on: its greedy path needs a character
MARK: Final = "{static}"  # in the page: the way to the files


class File(NamedTuple):
    """One file as it is sent."""

    data: bytes
    packed: bytes
    media_type: str
    tag: str  # ETag


class ConsoleFiles:
    """The console's files."""

    def __init__(self, contents: Mapping[str, bytes], connect: Iterable[str] = ()) -> None:
        if strange := [name for name in contents if _suffix(name) not in MEDIA_TYPES] or PAGE not in contents:
            raise SettingsError(f"the console's files are incomplete, or have one of another kind: {strange}")
        self._contents = contents
        self._packed = lru_cache(maxsize=None)(self._file)
        self._headers = headers(connect)

    @cached_property
    def version(self) -> str:
        """The hash in the names of the files: another one when any of them changes."""
        names = sorted(self._contents)
        together = b"".join(f"{name}\0{len(self._contents[name])}\0".encode() + self._contents[name] for name in names)
        return sha256(together).hexdigest()[:HASH_CHARACTERS]

    def answer(self, request: Request) -> Response:
        """The answer to one request.

        Raises:
            NotFound: the console does not have this file or view.
            MethodNotAllowed: it is not to be read.
        """
        if request.method not in METHODS:
            raise MethodNotAllowed(f"use {' or '.join(METHODS)} here", METHODS)
        if not request.resource.endswith("/{proxy+}"):
            return self._moved(request)
        rest = request.path_params.get("proxy", "")
        if rest.startswith(STATIC):
            return self._static(rest.removeprefix(STATIC), request)
        if not VIEW.fullmatch(rest):
            raise NotFound("the console has no such page")
        return self._sent(self._page(rest.count("/")), EACH_TIME, request)

    def _moved(self, request: Request) -> Response:
        """From `/` and `/console` to the console, by a relative path: a stage's or a domain's may stand before it."""
        last = "" if request.resource != "/" else str(request.context.get("path") or "/").rpartition("/")[2]
        return Response(302, b"", {**self._headers, **NO_STORE, "Location": f"{last}{'/' if last else ''}{FIRST}"})

    def _static(self, rest: str, request: Request) -> Response:
        version, _, name = rest.partition("/")
        if version != self.version or name not in self._contents or name == PAGE:
            raise NotFound("the console has no such file; if it was updated, load the page again")
        return self._sent(self._packed(name), FOR_GOOD, request)

    def _page(self, depth: int) -> File:
        """The page for a view so many folders deep: its files are found by a relative path, whatever stands before."""
        return self._packed(PAGE, f"{'../' * depth}{STATIC}{self.version}")

    def _file(self, name: str, way: str = "") -> File:
        data = self._contents[name].replace(MARK.encode(), way.encode()) if way else self._contents[name]
        return File(
            data, gzip.compress(data, mtime=0), MEDIA_TYPES[_suffix(name)], f'"{sha256(data).hexdigest()[:32]}"'
        )

    def _sent(self, file: File, cached: str, request: Request) -> Response:
        named = {**self._headers, "Cache-Control": cached, "ETag": file.tag, "Vary": "Accept-Encoding"}
        if file.tag in request.header("if-none-match"):
            return Response(304, b"", named)
        body, named = file.data, {**named, "Content-Type": file.media_type}
        if _takes_gzip(request.header("accept-encoding")):
            body, named = file.packed, {**named, "Content-Encoding": "gzip"}
        return Response(200, b"" if request.method == "HEAD" else body, named, is_binary=True)


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path there."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in _files(folder)}


def serve_files(
    files: ConsoleFiles, event: Mapping[str, Any], context: LambdaContext, telemetry: Telemetry
) -> dict[str, Any]:
    """Answer one proxy event with a file; a failure in the door's body."""
    request = Request.from_event(event, context.get_remaining_time_in_millis)
    try:
        response = files.answer(request)
    except PieceworkError as error:
        response = _refused(error)
    except Exception:  # noqa: BLE001  # the function's outer edge: a bug is logged and answered without its text
        telemetry.bug("ops_files")
        response = _refused(Internal("internal error; the function's log has it"))
    return response.to_proxy(request.trace_id)


def _refused(error: PieceworkError) -> Response:
    response = error_response(error)
    return response._replace(headers={**headers(), **NO_STORE, **response.headers})


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"


def _takes_gzip(accepted: str) -> bool:
    """Whether gzip is named, without a weight of zero."""
    named = [part.replace(" ", "").lower().partition(";q=") for part in accepted.split(",")]
    return any(
        (name == "gzip" and weight.strip("0.") != "") or (name == "gzip" and not weight) for name, _, weight in named
    )
