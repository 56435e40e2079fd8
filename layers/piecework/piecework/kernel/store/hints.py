"""Hints in the kernel table: one row per connection, `pk` = `BELL#` and a hash, overwritten by each hint.

An execution needs none: the version of its checkpoint tells its readers that there is something new.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_KERNEL, Table
from piecework.aws.writes import at
from piecework.kernel.store.keys import meta
from piecework.kernel.streams.hints import Hints, Key

if TYPE_CHECKING:
    from piecework.aws.table import Client

SORT: Final = "-"
ROWS: Final = 4_096  # keys whose rows are remembered
KEPT_SECONDS: Final = 86_400  # a connection that lives on gets another hint


class KernelHints(Hints):
    """Hints in DynamoDB; reads are eventually consistent, which is enough for a hint."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_KERNEL)

    def send(self, keys: Iterable[Key]) -> None:
        for key in keys:
            expires = int(time.time()) + KEPT_SECONDS
            self._table.put({**at(_place(key)), "mark": secrets.token_hex(6), "expires_at": expires})

    def marks(self, keys: Collection[Key]) -> Mapping[Key, str]:
        named = {_place(key): key for key in keys}
        found = self._table.find(list(named), only="pk, sk, mark, version", hint=True)
        return {named[place]: str(row["version"] if "version" in row else row["mark"]) for place, row in found.items()}


@lru_cache(ROWS)
def _place(key: Key) -> tuple[str, ...]:
    if key[0] == "monitor":
        return meta(key[1])
    return "BELL#" + hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32], SORT
