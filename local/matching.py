"""Compares an answer with a fixture's expectation, in which some members change from run to run.

`{"$any": "integer"}` stands for any value of that JSON type, `{"$pattern": "^sha256:"}` for text that matches it, and
`{"$includes": ["swarm"]}` for a list that has at least these items.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
MATCHERS: Final = frozenset({"$any", "$pattern", "$includes"})


def differences(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """One line per place where the actual value differs from the expected one."""
    if isinstance(expected, dict) and expected.keys() <= MATCHERS and expected:
        if not _fits(expected, actual):
            yield f"{where or 'value'}: {actual!r} is not {expected}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            yield from _member(expected, actual, name, f"{where}.{name}" if where else name)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for position, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{where}[{position}]")
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{where or 'value'}: expected {expected!r}, got {actual!r}"


def _member(expected: Mapping[str, Any], actual: Mapping[str, Any], name: str, where: str) -> Iterator[str]:
    if name not in actual:
        yield f"{where}: missing"
    elif name not in expected:
        yield f"{where}: not expected, got {actual[name]!r}"
    else:
        yield from differences(expected[name], actual[name], where)


def _fits(matcher: Mapping[str, Any], actual: Any) -> bool:
    if "$includes" in matcher:
        return isinstance(actual, list) and all(item in actual for item in matcher["$includes"])
    if "$pattern" in matcher:
        return isinstance(actual, str) and re.search(matcher["$pattern"], actual) is not None
    wanted = matcher["$any"]
    return isinstance(actual, TYPES[wanted]) and (wanted == "boolean" or not isinstance(actual, bool))
