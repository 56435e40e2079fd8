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
from piecework.aws.writes import Update
from piecework.kernel.store.keys import meta
from piecework.kernel.streams.hints import MONITOR, Hints, Key, Mark, Named

if TYPE_CHECKING:
    from piecework.aws.table import Client

# Earlier versions read `mark`, and nothing else; they put rows without a number.
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
            self._table.transact([hint(key, named)])

    def marks(self, keys: Collection[Key]) -> Mapping[Key, Mark]:
        rows = {_place(key): key for key in keys if key[0] != MONITOR}
        metas = {meta(key[1])[:1]: key for key in keys if key[0] == MONITOR}
        rung = self._table.find(list(rows), hint=True)  # whole: they are small
        read = self._table.find([meta(key[1]) for key in metas.values()], only="pk, version", hint=True)
        return {
            **{rows[place]: _mark(row) for place, row in rung.items()},
            **{metas[place]: Mark(row["version"]) for place, row in read.items()},
        }


def hint(key: Key, named: Named | None = None) -> Update:
    """The write of one hint."""
    values = {"one": 1, "named": " ".join(named or ()), "expires": int(time.time()) + KEPT_SECONDS}
    return Update(_place(key), RING, condition="", values=values | {"mark": secrets.token_hex(6)})


def _mark(row: Item) -> Mark:
    return Mark(row.get("rung", 0), Named(*row["named"].split()) if row.get("named") else None)


@lru_cache(ROWS)
def _place(key: Key) -> tuple[str, ...]:
    return "BELL#" + hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32], SORT
