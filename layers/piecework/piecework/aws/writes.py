"""Conditional writes, as requests carry them, and how a repeated one recognises what its own first try wrote.

AWS's client repeats a request whose answer was lost. When the first try was done, our own row fails the condition of
the second one:

    first try   is done; the answer is lost
    repeat      its condition fails; the answer holds the row in the way, which is ours by its token or by what it holds

A write that says `ours` is recognised by these attributes, however often it is sent. A put whose item has a `write`,
drawn anew for each put, is recognised by that. Any other is recognised only when it was sent before, by a row that is
as the first try would have left it; where another's write could leave the same row, say `ours`.

In expressions `#name` stands for the attribute of that name: DynamoDB has reserved many names for itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.aws.attributes import Item, attribute, typed

ABSENT: Final = "attribute_not_exists(pk)"
PRESENT: Final = "attribute_exists(pk)"
ABSENT_OR_EXPIRED: Final = "attribute_not_exists(pk) OR expires_at <= :now_s"  # TTL deletes late
_NAME: Final = re.compile(r"#(\w+)")
_SET: Final = re.compile(r"(\w+) = :(\w+)")

Key = tuple[str, ...]  # pk, or pk and sk
Values = Mapping[str, object]  # of expressions, by their names without the colon


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conditional:
    condition: str = ""
    values: Values = field(default_factory=dict[str, object])
    ours: Values = field(default_factory=dict[str, object])
    names: Mapping[str, str] = field(default_factory=dict[str, str])  # attributes that no `#name` can spell
    table: str = ""  # another one than the gateway's own

    def _given(self, table: str, **parts: object) -> dict[str, Any]:
        given = {"TableName": self.table or table, **parts}
        texts = f"{parts.get('UpdateExpression', '')} {self.condition}".strip()
        if not texts:
            return given
        return (
            given
            | ({"ConditionExpression": self.condition} if self.condition else {})
            | expressed(texts, self.values, self.names)
        )

    def _is_marked(self, standing: Item) -> bool:
        return all(_holds(standing.get(name), value) for name, value in self.ours.items())


@dataclass(frozen=True, slots=True)
class Put(_Conditional):
    """A whole row in place of what stands."""

    item: Item

    def given(self, table: str) -> dict[str, Any]:
        """The write as a request carries it."""
        return self._given(table, Item=typed(self.item))

    def is_done(self, standing: Item, *, is_repeat: bool) -> bool:
        """Whether the row in the way is our own first try's."""
        if self.ours:
            return self._is_marked(standing)
        if "write" in self.item:
            return bool(standing.get("write") == self.item["write"])
        return is_repeat and standing == self.item


@dataclass(frozen=True, slots=True)
class Update(_Conditional):
    """A change of a row's attributes."""

    key: Key
    expression: str

    def given(self, table: str) -> dict[str, Any]:
        """The write as a request carries it."""
        return self._given(table, Key=typed(at(self.key)), UpdateExpression=self.expression)

    def is_done(self, standing: Item, *, is_repeat: bool) -> bool:
        """Whether the row in the way is as our own first try left it."""
        if self.ours:
            return self._is_marked(standing)
        sets = _SET.findall(self.expression)
        return is_repeat and bool(sets) and all(standing.get(name) == self.values[value] for name, value in sets)


@dataclass(frozen=True, slots=True)
class Delete(_Conditional):
    """The removal of a row."""

    key: Key

    def given(self, table: str) -> dict[str, Any]:
        """The write as a request carries it."""
        return self._given(table, Key=typed(at(self.key)))

    def is_done(self, standing: Item, *, is_repeat: bool) -> bool:
        """Whether the row is gone by our own first try."""
        return is_repeat and not standing


Write = Put | Update | Delete


def at(key: Key) -> Item:
    """A key's attributes."""
    return dict(zip(("pk", "sk"), key, strict=False))


def new_write() -> str:
    """A token drawn for one write: 64 random bits."""
    return secrets.token_hex(8)


def expressed(texts: str, values: Values, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The values and names of a request's expressions."""
    named = {f"#{name}": (names or {}).get(name, name) for name in _NAME.findall(texts)}
    valued = {f":{name}": attribute(value) for name, value in values.items()}
    return ({"ExpressionAttributeValues": valued} if valued else {}) | (
        {"ExpressionAttributeNames": named} if named else {}
    )


def _holds(standing: object, value: object) -> bool:
    """Whether an attribute is, or as a set holds, what we wrote."""
    return value in standing if isinstance(standing, frozenset) else bool(standing == value)
