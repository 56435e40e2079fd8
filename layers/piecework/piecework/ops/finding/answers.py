"""What a search by an id asks and answers, at the doors' rows and at the kernel's."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from piecework.errors import BadRequest
from piecework.jsons import Json
from piecework.ops.listing import AHEAD_MS
from piecework.ops.query import MOST_MS, number, texts

MOST_BYTES: Final = 512  # of an id that is looked for
MOST_FOUND: Final = 25  # of one kind
NOT_AN_ID: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Sought(NamedTuple):
    """What is looked for, and from when lists are looked through backwards, epoch ms."""

    id: str
    until_ms: int
    now_ms: int

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]], now_ms: int) -> "Sought":
        """What a query asks for.

        Raises:
            BadRequest: the id is missing or cannot be an id, or the query has another parameter.
        """
        asked = texts(query, "id", "until_ms")
        given = asked.get("id", "")
        wanted = given.strip()
        if not wanted or NOT_AN_ID.search(given) or len(wanted.encode()) > MOST_BYTES:
            raise BadRequest(f"id must be a text of 1 to {MOST_BYTES} bytes without control characters")
        return cls(wanted, min(number(asked, "until_ms", MOST_MS, MOST_MS), now_ms + AHEAD_MS), now_ms)


class Found(NamedTuple):
    """Something that has the id: `id` is its own, `of` that of what it belongs to, `by` which of its ids it was.

    `at_ms` is the time of what has no page of its own, but stands in a list by time; else None. `is_whole` is False
    where a list has the beginning of a long id only, and that agrees.
    """

    kind: str
    id: str
    by: str
    of: str | None = None
    at_ms: int | None = None
    is_whole: bool = True


class Looked(NamedTuple):
    """A kind that was looked for by one of its ids; None: among all that is kept, else among those since then."""

    kind: str
    by: str
    since_ms: int | None = None


def body_of(found: Sequence[Found], looked: Sequence[Looked]) -> dict[str, Json]:
    """The answer."""
    return {"items": [one._asdict() for one in found], "looked": [one._asdict() for one in looked]}
