"""Parameters of a query, read strictly: an unknown, repeated or senseless one is a 400, never passed over."""

from collections.abc import Mapping, Sequence
from typing import Final

from piecework.errors import BadRequest

MOST_CHARACTERS: Final = 512  # of one parameter
MOST_MS: Final = 9_999_999_999_999  # epoch ms, in the year 2286


def texts(query: Mapping[str, Sequence[str]], *allowed: str) -> dict[str, str]:
    """The parameters of a query that are given and not empty.

    Raises:
        BadRequest: one is unknown, repeated or too long; the message names it.
    """
    found = {}
    for name, values in query.items():
        if name not in allowed:
            raise BadRequest(f"the parameter {name[:40]!r} is not one of {', '.join(allowed)}")
        if len(values) != 1:
            raise BadRequest(f"{name} was sent {len(values)} times; send it once")
        if len(values[0]) > MOST_CHARACTERS:
            raise BadRequest(f"{name} is over {MOST_CHARACTERS} characters")
        if values[0]:
            found[name] = values[0]
    return found


def number(found: Mapping[str, str], name: str, default: int, most: int, least: int = 0) -> int:
    """A whole number among the parameters. Raises BadRequest when it is not one, or out of its bounds."""
    text = found.get(name)
    if text is None:
        return default
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not digits or not least <= int(text) <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}")
    return int(text)


def one_of(found: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """A parameter that names one of several; empty when it is not given. Raises BadRequest for any other."""
    text = found.get(name, "")
    if text and text not in allowed:
        raise BadRequest(f"{name} must be one of {', '.join(allowed)}")
    return text
