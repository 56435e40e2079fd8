"""Hints in the kernel table: one row per connection, `pk` = `BELL#` and a hash, overwritten by each hint.

An execution needs none: the version of its checkpoint tells its readers that there is something new.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.table import THE_KERNEL, Table
from piecework.kernel.store.keys import meta
from piecework.kernel.streams.hints import Hints, Key, Mark, Named

if TYPE_CHECKING:
    from piecework.aws.table import Client

# Earlier versions put the row with a new `mark` and nothing else; they still read it.
RING: Final = "SET mark = :mark, named = :named, expires_at = :expires ADD rung :one"
SORT: Final = "-"
ROWS: Final = 4_096  # keys whose rows are remembered
KEPT_SECONDS: Final = 86_400  # a connection that lives on gets another hint


class KernelHints(Hints):
    """Hints in DynamoDB; reads are eventually consistent, which is enough for a hint."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_KERNEL)

    def send(self, hints: Mapping[Key, Named | None]) -> None:
        for key, named in hints.items():
            values = {"one": 1, "named": list(named or ()), "expires": int(time.time()) + KEPT_SECONDS}
            self._table.update(_place(key), RING, values | {"mark": secrets.token_hex(6)})

    def marks(self, keys: Collection[Key]) -> Mapping[Key, Mark]:
        places = {_place(key): key for key in keys}
        found = self._table.find(list(places), only="pk, sk, rung, named, mark, version", hint=True)
        return {places[place]: _mark(row) for place, row in found.items()}


def _mark(row: Item) -> Mark:
    if "version" in row:
        return Mark(row["version"])
    if "rung" in row:
        return Mark(row["rung"], Named(*row["named"]) if row["named"] else None)
    return Mark(int(row["mark"], 16))


@lru_cache(ROWS)
def _place(key: Key) -> tuple[str, ...]:
    if key[0] == "monitor":
        return meta(key[1])
    return "BELL#" + hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32], SORT
