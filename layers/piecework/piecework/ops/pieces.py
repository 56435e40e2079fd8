"""Pieces of the runtime door: a list by time, caller, executor and state, and one piece with its steps and evidence.

A row of the index says who asked and what works; the state is read from the piece itself, so that it is true now. Only
pieces that were claimed by code which writes the index are listed. What an output holds is never shown: its digest is.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from piecework.durable.artifacts import EvidenceStore, Served, serve
from piecework.durable.pieces import Overflow, Piece, State, piece_key
from piecework.edge.roles import Caller
from piecework.errors import BadRequest, NotFound
from piecework.jsons import Json, canonical, loads_exact
from piecework.ops.access import READS, require
from piecework.ops.listing import AHEAD_MS, DAY_MS, LARGEST_PAGE, PAGE, TIME_DIGITS, Place, Row, Rows, page_of
from piecework.ops.query import MOST_MS, number, one_of, texts

LONGEST_LIFE_MS: Final = 31 * DAY_MS  # of a record: the largest ResultTtlSeconds, and a day
MOST_STEPS: Final = 100
KEY: Final = re.compile(r"[0-9a-f]{64}")
IDS: Final = ("task_id", "execution_id", "attempt_id")
ADDRESS: Final = re.compile(r"/artifacts/([0-9a-f]{64})/([A-Za-z0-9_-]{22})\Z")
FILTERS: Final = ("caller", "executor", "state", "since_ms", "until_ms", "limit", "cursor")


class StepRow(NamedTuple):
    """A recorded step of a piece."""

    name: str
    at_ms: int


class PieceRows(Rows, Protocol):
    """The index of pieces, and the pieces themselves."""

    def find(self, keys: Sequence[str]) -> Mapping[str, Piece]:
        """Those of the pieces that are there, strongly consistent, without what they hold."""

    def read(self, key: str) -> Piece | None:
        """One piece, strongly consistent; None also where the key is a step's."""

    def shown(self, id_: str) -> str:
        """One of the caller's ids as rows show it: a long one is cut."""

    def steps(self, key: str, limit: int) -> list[StepRow]:
        """The recorded steps of a piece, the oldest first, at most `limit`; one request."""


class PieceViews:
    """What operators see of pieces."""

    def __init__(self, rows: PieceRows, texts: Overflow, evidence: EvidenceStore, clock: Callable[[], int]) -> None:
        self._rows, self._texts, self._evidence, self._clock = rows, texts, evidence, clock

    def page(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A page of the list, the newest first.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: a parameter has no meaning.
        """
        require(caller, READS)
        asked = texts(query, *FILTERS)
        state = one_of(asked, "state", [state.value for state in State])
        now_ms = self._clock()
        until_ms = min(number(asked, "until_ms", MOST_MS, MOST_MS), now_ms + AHEAD_MS)
        since_ms = max(number(asked, "since_ms", 0, MOST_MS), now_ms - LONGEST_LIFE_MS)
        start = Place.of(asked.get("cursor", ""), until_ms)
        size = number(asked, "limit", PAGE, LARGEST_PAGE, least=1)

        def look(rows: Sequence[Row]) -> list[Json | None]:
            wanted = [
                all(row.get(name) == asked.get(name, row.get(name)) for name in ("caller", "executor")) for row in rows
            ]
            found = self._rows.find([row["pk"] for row, is_wanted in zip(rows, wanted, strict=True) if is_wanted])
            return [_listed(row, found.get(row["pk"]), state, now_ms) for row in rows]

        return page_of(self._rows, start, since_ms, size, look).to_json()

    def one(self, caller: Caller, key: str) -> dict[str, Json]:
        """A piece by its key, with its steps, the digest of its output and its evidence.

        Raises:
            Forbidden: the caller may not read.
            NotFound: the piece does not exist, or its record has expired.
        """
        require(caller, READS)
        piece = self._read(key)
        steps = self._rows.steps(key, MOST_STEPS + 1)
        shown: list[Json] = [{"name": step.name, "at_ms": step.at_ms} for step in steps[:MOST_STEPS]]
        more = {"steps": shown, "has_more_steps": len(steps) > MOST_STEPS}
        return {**_in_short(key, piece, self._clock()), **self._result(piece), **more}

    def named(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A piece by its caller and the caller's three ids; as `one`."""
        require(caller, READS)
        asked = texts(query, "caller", *IDS)
        if missing := [name for name in ("caller", *IDS) if name not in asked]:
            raise BadRequest(f"give {', '.join(missing)}")
        return self.one(caller, piece_key("runtime", asked["caller"], *(asked[name] for name in IDS)))

    def execution(self, caller: Caller, key: str) -> tuple[str, int]:
        """The execution's id of a piece, as lists show it, and when it was last claimed, epoch ms.

        Raises:
            Forbidden: the caller may not read.
            NotFound: the piece does not exist, its record has expired, or a release that did not keep ids wrote it.
        """
        require(caller, READS)
        piece = self._read(key)
        if piece.origin is None or len(piece.origin.ids) != len(IDS):
            raise NotFound("this piece was claimed by a release that did not keep its ids")
        return piece.origin.ids[IDS.index("execution_id")], piece.claimed_ms

    def evidence(self, caller: Caller, key: str, digest: str) -> Served:
        """The bytes of one of the piece's references, by their digest; the token of their address stays here.

        Raises:
            Forbidden: the caller may not read.
            NotFound: the piece, or this reference of it, is not there.
        """
        require(caller, READS)
        for ref in _answer(self._body(self._read(key))).get("evidence_refs", []):
            address = ADDRESS.search(str(ref.get("uri", "")))
            if address and address[1] == digest:
                return serve(self._evidence, digest, address[2])
        raise NotFound("this piece has no evidence with that digest")

    def _read(self, key: str) -> Piece:
        piece = self._rows.read(key) if KEY.fullmatch(key) else None
        if piece is None or piece.is_expired(self._clock()):
            raise NotFound("there is no such piece, or its record has expired")
        return piece

    def _body(self, piece: Piece) -> bytes:
        if piece.forgotten:
            return b""
        return piece.body or b"" if piece.pointer is None else self._texts.get(piece.pointer)

    def _result(self, piece: Piece) -> dict[str, Json]:
        if piece.state is State.RELEASED:
            return {**_NOTHING, "failure": {"code": piece.reason_code, "message": piece.reason}}
        answer = _answer(self._body(piece)) if piece.is_recorded() else {}
        if piece.state is State.FAILED and not piece.forgotten:
            return {**_NOTHING, "failure": {"code": answer.get("code"), "message": answer.get("message")}}
        if "candidate_output" not in answer:
            return _NOTHING
        raw = canonical(answer["candidate_output"])
        output = {"digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size_bytes": len(raw)}
        named, inline = answer.get("evidence_refs", []), len(answer.get("evidence_inline", []))
        refs = [{name: value for name, value in ref.items() if name != "uri"} for ref in named]
        return {"failure": None, "output": output, "evidence_refs": refs, "evidence_inline_count": inline}


_NOTHING: Final[dict[str, Json]] = {"failure": None, "output": None, "evidence_refs": [], "evidence_inline_count": 0}


def _answer(body: bytes) -> dict[str, Json]:
    """The recorded answer; empty for one of another shape, as those to events have."""
    found = loads_exact(body) if body else None
    return found if isinstance(found, dict) else {}


def _listed(row: Row, piece: Piece | None, state: str, now_ms: int) -> Json | None:
    """The item of a row; None where its piece is gone, was claimed anew since, or is in another state."""
    if piece is None or piece.is_expired(now_ms) or row["at_id"][:TIME_DIGITS] != _in_its_day(piece.claimed_ms):
        return None
    return None if state and _state(piece) != state else _in_short(row["pk"], piece, now_ms)


def _in_its_day(at_ms: int) -> str:
    return f"{at_ms % DAY_MS:0{TIME_DIGITS}d}"


def _in_short(key: str, piece: Piece, now_ms: int) -> dict[str, Json]:
    origin = piece.origin
    ids = origin.ids if origin and len(origin.ids) == len(IDS) else (None,) * len(IDS)
    return {
        "key": key,
        "caller": origin.caller if origin else None,
        "executor": origin.executor if origin else None,
        **dict(zip(IDS, ids, strict=True)),
        "state": _state(piece),
        "is_lapsed": piece.is_lapsed(now_ms),
        "claimed_at_ms": piece.claimed_ms or None,
        "expires_at_ms": piece.expires_at * 1000,
        "forgotten": piece.forgotten.to_json() if piece.forgotten else None,
    }


def _state(piece: Piece) -> str:
    """The state that a piece is in, or was in when it was forgotten."""
    return piece.forgotten.was if piece.forgotten else piece.state.value
