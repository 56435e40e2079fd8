"""YAML as policies need it: one document of mappings, lists and scalars, bounded, without aliases, tags or doubles.

Scalars are read by the core schema of YAML 1.2, so `on`, `no` and `12:30` are text.
"""

import math
import re
from typing import TYPE_CHECKING, Any, Final

from piecework.errors import SettingsError
from piecework.jsons import Json
from piecework.values import dataclass, field

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

MAX_BYTES: Final = 262_144  # of one file
MAX_DEPTH: Final = 12  # a predicate's list of choices is the deepest there is, at seven
MAX_NUMBER: Final = 40  # characters
NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
SWITCH: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
UNTAGGED: Final = frozenset({None, "!"})


class PolicyInvalid(SettingsError):
    """A policy cannot be loaded; the message names file, rule and key."""

    code = "policy_invalid"


def read_document(data: bytes, name: str) -> Json:
    """The one value of a YAML file.

    Raises:
        PolicyInvalid: too large, not UTF-8, not YAML, or YAML beyond what policies need.
    """
    from yaml import YAMLError

    if len(data) > MAX_BYTES:
        raise PolicyInvalid(f"{name}: is larger than {MAX_BYTES} bytes")
    try:
        return _built(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise PolicyInvalid(f"{name}: is not UTF-8") from None
    except (_Refused, YAMLError) as error:
        raise PolicyInvalid(f"{name}: {_told(error)}") from None


class _Refused(Exception):
    """YAML that policies do not need; the mark says where."""


def _told(error: Exception) -> str:
    mark: Any = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    place = f"line {mark.line + 1}: " if mark else ""
    return f"{place}{problem or error}" if not isinstance(error, _Refused) else str(error)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come."""

    value: dict[str, Json] | list[Json]
    key: str | None = None
    seen: set[str] = field(default_factory=set)

    def takes_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None

    def put(self, item: Json) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is not None:
            self.value[self.key] = item
            self.key = None


def _built(text: str) -> Json:
    """Follow the parser's events; nothing here recurses, so deep nesting cannot overflow the stack."""
    import yaml

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    root = _Open([])
    waiting = [root]
    for event in yaml.parse(text, Loader=loader):
        _check(event, len(waiting))
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if waiting[-1].takes_key():
                raise _Refused(f"{_line(event)}a key must be text")
            opened = _Open({} if isinstance(event, yaml.MappingStartEvent) else [])
            waiting[-1].put(opened.value)
            waiting.append(opened)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            waiting.pop()
        elif isinstance(event, yaml.ScalarEvent):
            _take(event, waiting[-1])
    return _only(root.value)


def _only(documents: Any) -> Json:
    if len(documents) > 1:
        raise _Refused("holds more than one document")
    return documents[0] if documents else None


def _check(event: "Event", depth: int) -> None:
    from yaml import AliasEvent

    if isinstance(event, AliasEvent):
        raise _Refused(f"{_line(event)}aliases are not taken; write the value out")
    if getattr(event, "tag", None) not in UNTAGGED:
        raise _Refused(f"{_line(event)}tags are not taken")
    if depth > MAX_DEPTH:
        raise _Refused(f"{_line(event)}nests more than {MAX_DEPTH} levels")


def _take(event: "ScalarEvent", into: _Open) -> None:
    if not into.takes_key():
        into.put(_scalar(event))
        return
    key = event.value
    if key in into.seen:
        raise _Refused(f"{_line(event)}`{key}` occurs twice")
    into.seen.add(key)
    into.key = key


def _scalar(event: "ScalarEvent") -> Json:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in NULL:
        return None
    if text in SWITCH:
        return SWITCH[text]
    if (INTEGER.fullmatch(text) or NUMBER.fullmatch(text)) and len(text) > MAX_NUMBER:
        raise _Refused(f"{_line(event)}a number is longer than {MAX_NUMBER} characters")
    if INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if NUMBER.fullmatch(text):
        if not math.isfinite(number := float(text)):
            raise _Refused(f"{_line(event)}a number is too large")
        return number
    return text


def _line(event: "Event") -> str:
    mark: Any = event.start_mark
    return f"line {mark.line + 1}: "
