"""JSON documents inside a text that a model wrote: every balanced one, in their order.

What stands in brackets and is no JSON (`[a, b)`, `{x}`) is looked into, since a document may follow inside. Work is
bounded, because each bracket may be the beginning of a long text that never ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import MAX_DEPTH_IN, Json, loads_exact

MOST_WORK: Final = 4_000_000  # characters looked at in one text, some of them often; a reply holds at most 66,000
TOKEN_WORK: Final = 20  # a bracket or a string costs as much as so many characters
_START: Final = re.compile(r"[{\[]")
_TOKEN: Final = re.compile(
    r'\\.|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL
)  # an open string ends the text
_OBJECT: Final = re.compile(r"\{\s*(?:\"|\})")  # begins like an object, so what is inside it is no document of its own
_ESCAPED: Final = re.compile(r"[{\[\s]*\\\"")  # {\"a\":1}: the inside of a JSON string, without its quotes


@dataclass(frozen=True, slots=True)
class Document:
    """A document, and the place where it stands."""

    start: int
    end: int
    value: Json


def documents(text: str) -> Iterator[Document]:
    """The outermost documents of a text, from its beginning."""
    at, left = 0, MOST_WORK
    while left > 0 and (found := _START.search(text, at)):
        start = found.start()
        end, work = _end_of(text, start)
        left -= work
        if end is None:
            at = start + 1
            continue
        try:
            yield Document(start, end, _value(text[start:end]))
            at = end
        except BadRequest:
            at = end if _OBJECT.match(text, start) else start + 1


def _end_of(text: str, start: int) -> tuple[int | None, int]:
    """Where the bracket at `start` is closed, if it is, and the work of finding out."""
    depth, tokens = 0, 0
    for token in _TOKEN.finditer(text, start):
        tokens += 1
        if token.lastindex == 1:
            depth += 1
        elif token.lastindex == 2:
            depth -= 1
        if depth == 0 or depth > MAX_DEPTH_IN:
            end = token.end()
            return end if depth == 0 else None, end - start + tokens * TOKEN_WORK
    return None, len(text) - start + tokens * TOKEN_WORK


def _value(part: str) -> Json:
    if _ESCAPED.match(part):
        part = loads_exact(f'"{part}"')
    return loads_exact(part)
