"""The check that evidence exists: it compares the bytes behind references with their digests (specification 4.1 (c)).

References under our own artifact base are read from the store, never over the network. Others are fetched only in mode
`all`, by a fetcher that refuses every address that is not public.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

from piecework.durable.artifacts import DIGEST_PATTERN, TOKEN_PATTERN, Served
from piecework.errors import PieceworkError
from piecework.extend.policies import (
    EVIDENCE_AUTH_DENIED,
    EVIDENCE_DIGEST_MISMATCH,
    EVIDENCE_TIMEOUT,
    EVIDENCE_UNREACHABLE,
)
from piecework.jsons import Json
from piecework.runtime.verify.flow import NOTHING_FOUND, CheckEvidence, Findings, no_evidence_check

MAX_REFERENCES: Final = 32  # a kernel sends up to 447 with its sample contract
WORKERS: Final = 8  # bodies in memory at once
TOGETHER_SECONDS: Final = 15.0  # half of the time that a kernel waits for the verdict
TIMED_OUT: Final = "fetch_timed_out"
_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_DENIED: Final = (401, 403)

Reference = Mapping[str, Json]


class FetchEvidence(StrEnum):
    """Which evidence is checked: none, our own artifacts, or all that can be fetched safely."""

    OFF = "off"
    OWN = "own"
    ALL = "all"


class EvidenceReader(Protocol):
    """Reads our own artifacts; called from several threads at once."""

    def read(self, digest: str, token: str) -> Served | None: ...


class Answered(Protocol):
    """A fetched answer."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


Get = Callable[[str], Answered]


class EvidenceCheck:
    """Checks the evidence that the deployment's `FetchEvidence` names."""

    def __init__(
        self,
        mode: FetchEvidence,
        reader: EvidenceReader,
        get: Get | None = None,
        *,
        together_seconds: float = TOGETHER_SECONDS,
    ) -> None:
        self._mode = mode
        self._reader = reader
        self._get = get if mode is FetchEvidence.ALL else None
        self._together_seconds = together_seconds

    def under(self, public_url: str) -> CheckEvidence:
        """The check for a runtime whose artifacts are published under `public_url`."""
        if self._mode is FetchEvidence.OFF:
            return no_evidence_check
        return partial(self._check, f"{public_url.rstrip('/')}/artifacts/")

    def _check(self, base: str, references: Sequence[Reference]) -> Findings:
        checked = [ref for ref in references if self._get or _uri(ref).startswith(base)]
        if not checked:
            return NOTHING_FOUND
        notes: tuple[str, ...] = ()
        if (skipped := len(checked) - MAX_REFERENCES) > 0:
            notes = (f"{skipped} references over the first {MAX_REFERENCES} were not checked",)
        return Findings(self._look(base, checked[:MAX_REFERENCES]), notes)

    def _look(self, base: str, references: Sequence[Reference]) -> tuple[int, ...]:
        pool = ThreadPoolExecutor(max_workers=min(WORKERS, len(references)), thread_name_prefix="evidence")
        tasks = [pool.submit(self._code, base, reference) for reference in references]
        done, late = wait(tasks, timeout=self._together_seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        codes = {code for task in done if (code := task.result())}
        if late:
            codes.add(EVIDENCE_TIMEOUT)
        return tuple(sorted(codes))

    def _code(self, base: str, reference: Reference) -> int:
        """The reason code against one reference; 0 when it holds."""
        digest, uri = _DIGEST.fullmatch(str(reference.get("digest"))), _uri(reference)
        if digest is None:
            return EVIDENCE_UNREACHABLE  # without a digest its bytes cannot be compared
        try:
            code, data = self._own(uri.removeprefix(base)) if uri.startswith(base) else self._foreign(uri)
        except PieceworkError as error:
            return EVIDENCE_TIMEOUT if error.code == TIMED_OUT else EVIDENCE_UNREACHABLE
        return code or _compare(data, digest[1].lower(), reference.get("size_bytes"))

    def _own(self, address: str) -> tuple[int, bytes]:
        digest, _, token = address.partition("/")
        well_formed = DIGEST_PATTERN.fullmatch(digest) and TOKEN_PATTERN.fullmatch(token)
        served = self._reader.read(digest, token) if well_formed else None
        return (EVIDENCE_UNREACHABLE, b"") if served is None else (0, served.data)

    def _foreign(self, uri: str) -> tuple[int, bytes]:
        if self._get is None:
            return EVIDENCE_UNREACHABLE, b""
        answer = self._get(uri)
        if answer.status in _DENIED:
            return EVIDENCE_AUTH_DENIED, b""
        encoded = answer.headers.get("content-encoding", "").strip().lower() not in ("", "identity")  # other bytes
        return (EVIDENCE_UNREACHABLE, b"") if answer.status != 200 or encoded else (0, answer.body)


def _uri(reference: Reference) -> str:
    uri = reference.get("uri")
    return uri if isinstance(uri, str) else ""


def _compare(data: bytes, digest: str, size: Json) -> int:
    """A stated size that is not an integer of 64 bits is a placeholder and is not compared."""
    other_size = type(size) is int and size != len(data)
    same = hashlib.sha256(data).hexdigest() == digest and not other_size
    return 0 if same else EVIDENCE_DIGEST_MISMATCH
