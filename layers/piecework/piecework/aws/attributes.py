"""Plain values as DynamoDB's attributes and back: texts, numbers, bytes, truth values, lists, sets of texts."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

Item = dict[str, Any]  # a row: plain values by attribute

_AS_THEY_ARE: Final = {str: "S", bool: "BOOL", bytes: "B"}


def typed(item: Mapping[str, object]) -> dict[str, Any]:
    """A row as requests carry it. Raises TypeError for a value that has no attribute."""
    return {name: attribute(value) for name, value in item.items()}


def plain(item: Mapping[str, Any]) -> Item:
    """A row as answers carry it, as plain values; of a kind that we never write, the attribute itself."""
    return {name: _value(given) for name, given in item.items()}


def attribute(value: object) -> dict[str, Any]:
    """A value with its kind."""
    kind = _AS_THEY_ARE.get(type(value))
    if kind:
        return {kind: value}
    match value:
        case str():
            return {"S": value}
        case int() | float():
            return {"N": str(value)}
        case frozenset():
            return {"SS": sorted(value)}
        case list() | tuple():
            return {"L": [attribute(each) for each in value]}
    raise TypeError(f"{type(value).__name__} has no attribute")


def _value(given: Mapping[str, Any]) -> Any:
    [(kind, value)] = given.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return _number(value)
        case "B":
            return b64decode(value) if isinstance(value, str) else bytes(value)
        case "SS":
            return frozenset(value)
        case "L":
            return [_value(each) for each in value]
    return dict(given)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
