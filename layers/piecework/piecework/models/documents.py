"""The JSON documents inside a model's text: every balanced one, in their order.

Brackets that are not JSON (`[a, b)`, `{x}`) are searched too, because a document may follow inside. The work is
bounded, because each bracket may begin a long text without an end.
"""

import re
from collections.abc import Iterator
from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import MAX_DEPTH_IN, Json, loads_exact
from piecework.values import dataclass

MOST_WORK: Final = 4_000_000  # characters read in one text, some of them repeatedly; a reply holds at most 66,000
TOKEN_WORK: Final = 20  # a bracket or a string counts as this many characters
_START: Final = re.compile(r"[{\[]")
_TOKEN: Final = re.compile(
    r'\\.|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL
)  # an open string ends the text
_OBJECT: Final = re.compile(r"\{\s*(?:\"|\})")  # begins like an object, so its inside is not searched for documents
_ESCAPED: Final = re.compile(r"[{\[\s]*\\\"")  # {\"a\":1}: the inside of a JSON string, without its quotes


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its place in the text."""

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
    """The end of the bracket at `start`, if it is closed, and the work of the search."""
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
