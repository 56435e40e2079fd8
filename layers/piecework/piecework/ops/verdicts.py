"""Verdicts of POST /verify by status, reason, policy and candidate, read from the log of the function that gave them.

That function stores nothing, so its lines are the only record. A log is answered from the oldest line on, in parts that
may be empty, so a page looks at stretches of time, the newest first:

    since                                                          place, where the page begins
      |  ...  |---------- 4 h ----------|------- 1 h -------|- 15 min -|
                        third                  second          first

A stretch counts when its last part has come. One that takes too many parts is looked at again, an eighth as long. A
page ends when it is full, or has asked as often or as long as it may; its cursor says where to go on, and how far.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from piecework.edge.roles import Caller
from piecework.errors import BadRequest, Unavailable
from piecework.jsons import Json
from piecework.ops.access import READS, require
from piecework.ops.listing import AHEAD_MS, DAY_MS, LARGEST_PAGE, PAGE
from piecework.ops.query import MOST_MS, number, one_of, texts

STATUSES: Final = ("passed", "failed", "inconclusive")
LARGEST_REASON: Final = 999_999
CUT: Final = "…"  # behind an id that is too long for a list
LINE_CHARACTERS: Final = 200  # of a text in a line; longer ones are cut there (`aws.telemetry`)
PREFIX: Final = "sha256:"
MOST_PARTS: Final = 12  # requests of one page; CloudWatch takes some 5 to 10 a second from an account
PARTS_A_STRETCH: Final = 4
PAGE_MS: Final = 8_000  # after that a page asks no more; the function has 28 s, and a request up to 16
FIRST_MS: Final = 15 * 60_000
LONGEST_MS: Final = 10 * DAY_MS
CURSOR: Final = re.compile(r"([0-9]{1,13})\.([0-9]{1,9})(?:\.([0-9A-Za-z-]{1,64}))?")
BY_ID: Final = ("policy_id", "candidate_id", "execution_id", "caller")
FILTERS: Final = ("status", "reason", *BY_ID, "output_digest", "since_ms", "until_ms", "limit", "cursor")


class Verdict(NamedTuple):
    """A verdict as the log has it; what lines of earlier code lack is None. `line_id` orders those of a millisecond."""

    at_ms: int
    line_id: str
    verification_status: str
    reason_codes: tuple[int, ...]
    policy_id: str | None
    policy_hash_rule: str | None
    candidate_id: str | None
    execution_id: str | None
    caller: str | None
    score: float | None
    output_digest: str | None
    verifier_result_hash: str | None

    def to_json(self) -> dict[str, Json]:
        """The verdict as it is answered."""
        shown: dict[str, Json] = {**self._asdict(), "reason_codes": [*self.reason_codes]}
        del shown["line_id"]
        return shown


class Part(NamedTuple):
    """A part of a stretch; `token` asks for the next one. One that is not the last, without a token, is cut short."""

    verdicts: Sequence[Verdict]
    is_last: bool
    token: str = ""


class VerdictLog(Protocol):
    """The lines of the function that judges."""

    def part(self, since_ms: int, until_ms: int, begins: Mapping[str, str], token: str) -> Part:
        """Verdicts from `since_ms` to `until_ms`, both included, in any order; one request.

        It may leave out verdicts whose members begin otherwise than `begins` says, and need not.

        Raises:
            PieceworkError: the log cannot be read.
        """


class Place(NamedTuple):
    """Where a list goes on: before this moment, or at it before this line; and how long its next stretch is."""

    until_ms: int
    length_ms: int = FIRST_MS
    line_id: str = ""

    @classmethod
    def of(cls, cursor: str, until_ms: int) -> "Place":
        """The place that a cursor names, never after `until_ms`; without one, `until_ms` itself.

        Raises:
            BadRequest: it is not a cursor of ours.
        """
        if not cursor:
            return cls(until_ms + 1)
        match = CURSOR.fullmatch(cursor)
        if match is None:
            raise BadRequest("cursor must be the `next` of an earlier page")
        if int(match[1]) > until_ms:
            return cls(until_ms + 1)
        return cls(int(match[1]), min(max(1, int(match[2])), LONGEST_MS), match[3] or "")

    @property
    def cursor(self) -> str:
        line = f".{self.line_id}" if self.line_id else ""
        return f"{self.until_ms}.{self.length_ms}{line}"

    @property
    def last_ms(self) -> int:
        """The last millisecond before it."""
        return self.until_ms if self.line_id else self.until_ms - 1

    def has(self, verdict: Verdict) -> bool:
        """Whether a verdict stands before this place."""
        return (verdict.at_ms, verdict.line_id) < (self.until_ms, self.line_id)


class Wanted(NamedTuple):
    """Which verdicts a list is about."""

    texts: Mapping[str, str]  # members of a verdict, which are compared as a line has them
    reason: int | None = None
    digest: str = ""
    execution: str = ""  # an id as lists show it: cut with an ellipsis, and without line breaks

    @classmethod
    def of(cls, asked: Mapping[str, str], execution: str) -> "Wanted":
        """Raises BadRequest when a filter has no meaning."""
        status = one_of(asked, "status", STATUSES)
        reason = number(asked, "reason", 0, LARGEST_REASON) if "reason" in asked else None
        given = {name: asked[name][:LINE_CHARACTERS] for name in BY_ID if name in asked}
        given |= {"verification_status": status} if status else {}
        return cls(given, reason, _bare(asked.get("output_digest")), execution)

    @property
    def begins(self) -> Mapping[str, str]:
        """How members of each wanted verdict begin."""
        listed = {"execution_id": self.execution.split(" ")[0].removesuffix(CUT)} if self.execution else {}
        return {**self.texts, **listed}

    def has(self, verdict: Verdict) -> bool:
        """Whether a verdict is one of them."""
        members = verdict._asdict()
        return (
            all(members[name] == text for name, text in self.texts.items())
            and (self.reason is None or self.reason in verdict.reason_codes)
            and (not self.digest or _bare(verdict.output_digest) == self.digest)
            and (not self.execution or _is_listed_as(verdict.execution_id or "", self.execution))
        )


class Verdicts:
    """The verdicts that the log still has."""

    def __init__(self, log: VerdictLog, clock: Callable[[], int], *, kept_days: int, is_logged: bool = True) -> None:
        """`kept_days` is how long the log keeps a line; `is_logged`, whether lines of verdicts are written at all."""
        self._log, self._clock, self._kept_ms, self._is_logged = log, clock, kept_days * DAY_MS, is_logged

    def page(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A page of verdicts, the newest first, and counts of all in the stretch of time that it looked at.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: a parameter has no meaning.
            Unavailable: the log cannot be read now.
        """
        require(caller, READS)
        return self._page(texts(query, *FILTERS))

    def of_execution(
        self, caller: Caller, execution_id: str, claimed_ms: int, query: Mapping[str, Sequence[str]]
    ) -> dict[str, Json]:
        """As `page`, of the candidates of one execution, whose verdicts cannot be older than its claim."""
        require(caller, READS)
        asked = texts(query, "limit", "cursor")
        return self._page({**asked, "since_ms": str(max(0, claimed_ms - AHEAD_MS))}, execution_id)

    def _page(self, asked: Mapping[str, str], execution_id: str = "") -> dict[str, Json]:
        wanted, now_ms = Wanted.of(asked, execution_id), self._clock()
        until_ms = min(number(asked, "until_ms", MOST_MS, MOST_MS), now_ms + AHEAD_MS)
        since_ms = max(number(asked, "since_ms", 0, MOST_MS), now_ms - self._kept_ms, 0)
        place = Place.of(asked.get("cursor", ""), until_ms)
        size = number(asked, "limit", PAGE, LARGEST_PAGE, least=1)
        look = _Look(self._log, wanted, since_ms, place, self._clock)
        verdicts, following = look.filled(size)
        return {
            "items": [verdict.to_json() for verdict in verdicts],
            "next": following.cursor if following else None,
            "window": {"since_ms": look.reached_ms, "until_ms": place.until_ms, "is_whole": look.is_whole},
            "counts": {status: look.statuses[status] for status in STATUSES},
            "reasons": {str(code): look.reasons[code] for code in sorted(look.reasons)},
            "is_logged": self._is_logged,
        }


class _Look:
    """One page's way through the log."""

    def __init__(self, log: VerdictLog, wanted: Wanted, since_ms: int, place: Place, clock: Callable[[], int]) -> None:
        self._log, self._wanted, self._since_ms, self._clock = log, wanted, since_ms, clock
        self._place: Place = place
        self._parts, self._ends_ms = MOST_PARTS, clock() + PAGE_MS
        self.reached_ms = self._began_ms = place.until_ms
        self.is_whole = True  # no stretch of a single millisecond was too much
        self.statuses: Counter[str] = Counter()
        self.reasons: Counter[int] = Counter()

    def filled(self, size: int) -> tuple[list[Verdict], Place | None]:
        """At most `size` verdicts, and the place of the next ones; None at the end of the list."""
        items: list[Verdict] = []
        while self._place.last_ms >= self._since_ms:
            if len(items) == size:
                return items, self._place
            try:
                found = self._stretch()
            except Unavailable:
                if self.reached_ms == self._began_ms:
                    raise
                found = None
            if found is None:
                return items, self._place
            fitting = found[: size - len(items)]
            items += fitting
            if len(fitting) < len(found):
                last = fitting[-1]
                return items, Place(last.at_ms, self._place.length_ms, last.line_id)
        return items, None

    def _stretch(self) -> list[Verdict] | None:
        """The wanted verdicts of the next stretch that can be read whole, the newest first; None when time is up."""
        while self._may_ask():
            start_ms = max(self._since_ms, self._place.until_ms - self._place.length_ms)
            found, parts, is_whole = self._read(start_ms)
            if not is_whole and self._place.last_ms > start_ms:
                shorter = max(1, (self._place.until_ms - start_ms) // 8)
                self._place = self._place._replace(length_ms=shorter)
                continue
            if not is_whole and parts < PARTS_A_STRETCH and not self._may_ask():
                return None
            self._count(found)
            self.is_whole = self.is_whole and is_whole
            longer = self._place.length_ms * (4 if parts == 1 else 1)
            self._place, self.reached_ms = Place(start_ms, min(longer, LONGEST_MS)), start_ms
            return found
        return None

    def _may_ask(self) -> bool:
        return self._parts > 0 and self._clock() < self._ends_ms

    def _read(self, start_ms: int) -> tuple[list[Verdict], int, bool]:
        """The wanted verdicts from there to the place, how many parts were asked for, and whether these are all."""
        found: list[Verdict] = []
        part, parts = Part((), is_last=False), 0
        while parts < PARTS_A_STRETCH and not part.is_last and (not parts or (part.token and self._may_ask())):
            parts, self._parts = parts + 1, self._parts - 1
            part = self._log.part(start_ms, self._place.last_ms, self._wanted.begins, part.token)
            found += (verdict for verdict in part.verdicts if self._is_here(verdict, start_ms))
        found.sort(key=lambda verdict: (verdict.at_ms, verdict.line_id), reverse=True)
        return found, parts, part.is_last

    def _is_here(self, verdict: Verdict, start_ms: int) -> bool:
        return verdict.at_ms >= start_ms and self._place.has(verdict) and self._wanted.has(verdict)

    def _count(self, found: Sequence[Verdict]) -> None:
        self.statuses.update(verdict.verification_status for verdict in found)
        self.reasons.update(code for verdict in found for code in set(verdict.reason_codes))


def _bare(digest: str | None) -> str:
    return (digest or "").strip().lower().removeprefix(PREFIX)


def _is_listed_as(whole: str, listed: str) -> bool:
    """Whether a list may show this id so; the ids of two pieces that begin alike may be cut to the same text."""
    line = whole.replace("\n", " ")
    return line == listed or (listed.endswith(CUT) and line.startswith(listed.removesuffix(CUT)))
