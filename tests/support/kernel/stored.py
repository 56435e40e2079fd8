"""Rows of the kernel table as earlier code wrote them, put into a table of today's.

`stored/kernel_7a1e751.json` holds executions by name: `asked` (its first call waits for a person), `asked_twice`
(answered twice, and waiting again), `granted` (a local call that a person let through), `many` (queued jobs; its
checkpoint is packed), `ended`, `failed`, `signal` (waits for one), `pending` (its agent has never connected).
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import KernelTables

ROWS = Path(__file__).parents[1] / "stored" / "kernel_7a1e751.json"
WRITTEN_MS = 1_750_000_000_000


@dataclass(frozen=True)
class Old:
    """An execution that earlier code has stored."""

    stage: KernelStage
    id: str
    session_id: str
    steps: dict[str, str]

    @property
    def types(self) -> list[str]:
        return self.stage.types(self.id)

    @property
    def session(self) -> dict[str, str]:
        return {"execution_id": self.id, "session_id": self.session_id}


def put(stage: KernelStage, tables: KernelTables, name: str, newer: bool = False) -> Old:
    """Store an execution's rows; `newer` adds members that nobody knows yet, as a version after this one might."""
    found = json.loads(ROWS.read_text())[name]
    for row in found["kernel"]:
        item = {attribute: _value(value) for attribute, value in row.items()}
        tables.client.put_item(TableName=tables.table, Item=_newer(item) if newer else item)
    return Old(stage, found["execution_id"], found["session_id"], found["steps"])


def _value(value: dict[str, Any]) -> dict[str, Any]:
    if "B" in value:
        return {"B": base64.b64decode(value["B"]["__b64"])}
    return value


def _newer(item: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"S": _with_more(value["S"])} if name in TEXTS and "S" in value else value for name, value in item.items()
    } | {"newer": {"S": "x"}}


TEXTS = ("record", "body", "push", "approval")


def _with_more(text: str) -> str:
    return json.dumps(_extended(json.loads(text)))


def _extended(value: Any) -> Any:
    """A stored value whose objects that this code reads by name have one more member."""
    if isinstance(value, list):
        return [_extended(each) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {
        name: _extended(each) if name in ("session", "blocked", "steps", "job", "held_by") else each
        for name, each in value.items()
    }
    return {**inner, "newer": 1} if set(value) & KNOWN else inner


KNOWN = {
    "sequence",
    "expires_at_ms",
    "reason",
    "max_attempts",
    "not_before_ms",
    "runner_id",
    "completed_at_ms",
    "status",
    "since_ms",
    "kind",
}
