"""A client of DynamoDB that adds up write units as AWS charges them, from the items before and after each write.

A write is a unit for each begun kilobyte of the larger of both items, and twice that in a transaction. In an index it
is a unit for each begun kilobyte of what the index holds: once where that came, went or changed, twice where it moved.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from local.template import Template

KILOBYTE = 1_024
TABLE = "AWS::DynamoDB::Table"
NUMBER = "N"
KINDS = ("Put", "Update", "Delete", "ConditionCheck")


class Metered:
    """Passes every request on; `requests` counts them by operation, `units` by what was written."""

    def __init__(self, client: Any, template: Template, tables: Mapping[str, str]) -> None:
        """`tables`: logical names in the template, by the names of the tables."""
        self._client, self._tables = client, tables
        self._shapes = {name: template.of_type(TABLE)[logical] for name, logical in tables.items()}
        self.requests, self.units = Counter[str](), Counter[str]()

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.requests[name] += 1
            return getattr(self._client, name)(**given)

        return call

    def put_item(self, **given: Any) -> Any:
        return self._written("put_item", [given], given, 1)

    def update_item(self, **given: Any) -> Any:
        return self._written("update_item", [given], given, 1)

    def delete_item(self, **given: Any) -> Any:
        return self._written("delete_item", [given], given, 1)

    def transact_write_items(self, **given: Any) -> Any:
        parts = [part[kind] for part in given["TransactItems"] for kind in KINDS if kind in part]
        return self._written("transact_write_items", parts, given, 2)

    def take(self) -> tuple[dict[str, int], dict[str, int]]:
        """Requests and units since the last look."""
        taken = dict(self.requests), dict(self.units)
        self.requests, self.units = Counter(), Counter()
        return taken

    def _written(self, name: str, parts: list[dict[str, Any]], given: Any, factor: int) -> Any:
        self.requests[name] += 1
        before = [self._item(part) for part in parts]
        try:
            return getattr(self._client, name)(**given)
        finally:  # a write that is refused costs what its item has
            for part, old in zip(parts, before, strict=True):
                self._count(part["TableName"], old, self._item(part), factor)

    def _item(self, part: dict[str, Any]) -> dict[str, Any]:
        table = part["TableName"]
        names = [key["AttributeName"] for key in self._shapes[table]["KeySchema"]]
        key = part.get("Key") or {name: part["Item"][name] for name in names}
        found = self._client.get_item(TableName=table, Key=key, ConsistentRead=True)
        return dict(found.get("Item", {}))

    def _count(self, table: str, old: dict[str, Any], new: dict[str, Any], factor: int) -> None:
        logical = self._tables[table]
        self.units[logical] += factor * max(_units(old), _units(new), 1)
        for index in self._shapes[table].get("GlobalSecondaryIndexes", ()):
            was, is_now = self._held(table, index, old), self._held(table, index, new)
            if was != is_now:
                self.units[f"{logical}/{index['IndexName']}"] += self._moved(index, was, is_now)

    def _moved(self, index: Any, was: dict[str, Any], is_now: dict[str, Any]) -> int:
        keys = [key["AttributeName"] for key in index["KeySchema"]]
        if was and is_now and [was[name] for name in keys] == [is_now[name] for name in keys]:
            return max(_units(was), _units(is_now))
        return _units(was) + _units(is_now)

    def _held(self, table: str, index: Any, item: dict[str, Any]) -> dict[str, Any]:
        """What an index holds of an item: nothing unless it has both of its keys."""
        keys = {key["AttributeName"] for key in index["KeySchema"]}
        if not keys <= item.keys():
            return {}
        if index["Projection"]["ProjectionType"] == "ALL":
            return item
        held = keys | {key["AttributeName"] for key in self._shapes[table]["KeySchema"]}
        held |= set(index["Projection"].get("NonKeyAttributes", ()))
        return {name: value for name, value in item.items() if name in held}


def _units(item: Mapping[str, Any]) -> int:
    return math.ceil(size_of(item) / KILOBYTE)


def size_of(item: Mapping[str, Any]) -> int:
    """The bytes that DynamoDB counts for an item."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(value: Mapping[str, Any]) -> int:
    [(kind, held)] = value.items()
    if kind == "S":
        return len(held.encode())
    if kind == NUMBER:
        return math.ceil(len(held.lstrip("-").replace(".", "")) / 2) + 1 + held.startswith("-")
    if kind == "B":
        return len(held)
    if kind in ("SS", "NS", "BS"):
        return sum(_size({kind[0]: one}) for one in held)
    if kind == "L":
        return 3 + sum(1 + _size(one) for one in held)
    if kind == "M":
        return 3 + size_of(held) + len(held)
    return 1
