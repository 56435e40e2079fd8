"""Hints in the kernel table: one row per connection, `pk` = `BELL#` and a hash, overwritten by each hint."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from piecework.aws.table import THE_KERNEL, Table
from piecework.kernel.streams.hints import Hints, Key

if TYPE_CHECKING:
    from piecework.aws.table import Client

SORT: Final = "-"
KEPT_SECONDS: Final = 86_400  # a connection that lives on gets another hint


class KernelHints(Hints):
    """Hints in DynamoDB; reads are eventually consistent, which is enough for a hint."""

    def __init__(self, client: Client, table: str) -> None:
        self._table = Table(client, table, THE_KERNEL)

    def send(self, keys: Iterable[Key]) -> None:
        for key in keys:
            expires = int(time.time()) + KEPT_SECONDS
            self._table.put({"pk": _row(key), "sk": SORT, "mark": secrets.token_hex(6), "expires_at": expires})

    def marks(self, keys: Collection[Key]) -> Mapping[Key, str]:
        named = {_row(key): key for key in keys}
        found = self._table.find([(row, SORT) for row in named], only="pk, sk, mark", hint=True)
        return {named[row]: hint["mark"] for (row, _), hint in found.items()}


def _row(key: Key) -> str:
    return "BELL#" + hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
