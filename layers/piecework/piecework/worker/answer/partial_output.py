"""Partial output: what a task says before it ends, which is progress, finished items, and text (4.5, 4.6).

An executor's `run.item` stores a file at once and puts the item into the task's record, where polling lists it. What
an item holds is kept there only once the task is paid; the stream decides for itself what it may show.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from piecework.durable.pieces import Overflow
from piecework.errors import PieceworkError
from piecework.extend.executors import Artifact, Log
from piecework.extend.outgoing import Unsendable, sendable
from piecework.jsons import Json, canonical
from piecework.values import dataclass, field
from piecework.worker.answer.deliverables import FILE_LIMIT, MOST_FILES, Deliverables, StoredFile, store_files
from piecework.worker.record.execution import Execution
from piecework.worker.record.values import Item

MOST_ITEMS: Final = 100  # listed before the end; as many as an output may have
INLINE_BYTES: Final = 1_024  # of an item's content in the record, which DynamoDB keeps under 400 KB in all


class Listener(Protocol):
    """Hears what a running task says of itself; may lose it."""

    def progress(self, execution: Execution, pct: float, text: str) -> None: ...

    def item(self, execution: Execution, item: Item) -> None: ...

    def delta(self, execution: Execution, index: int, text: str) -> None: ...


@dataclass(slots=True)
class PartialOutput:
    """What one attempt has shown so far; it never fails the run."""

    execution: Execution
    folder: str  # of this lease: `<contract>/<task>/g<generation>/<lease>`
    files: Deliverables
    texts: Overflow
    record: Callable[[Execution, Item], None]  # raises PieceworkError
    listener: Listener
    log: Log
    stored: list[StoredFile] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    deltas: int = 0

    def progress(self, pct: float, text: str) -> None:
        """As `Run.progress`."""
        self.listener.progress(self.execution, pct, text)

    def delta(self, text: str) -> None:
        """As `Run.delta`."""
        self.listener.delta(self.execution, self.deltas, text.encode(errors="replace").decode())
        self.deltas += 1

    def item(self, part: Json, artifacts: Sequence[Artifact]) -> None:
        """As `Run.item`; `part` is the last of `artifacts`, or a value."""
        if len(self.items) >= MOST_ITEMS:
            return
        try:
            made = self._file(artifacts) if isinstance(part, Artifact) else _content(part)
            if made is None:
                return
            kept = made if isinstance(part, Artifact) else self._kept(made)
            self.record(self.execution, kept)
        except PieceworkError:
            self.log.warning("item_not_told", contract_id=self.execution.contract_id)
            return
        self.items.append(kept)
        self.listener.item(self.execution, made)

    def _file(self, artifacts: Sequence[Artifact]) -> Item | None:
        """The last file, stored under its place among all files; those that the limits will refuse are left out."""
        if len(artifacts) > MOST_FILES or any(len(artifact.data) > FILE_LIMIT for artifact in artifacts):
            return None
        folder = f"deliverables/{self.folder}"
        self.stored = store_files(self.files, folder, artifacts, self.log, self.stored)
        return self.stored[-1].as_item()

    def _kept(self, made: Item) -> Item:
        if not self.execution.is_paid:
            return {"type": made["type"]}
        raw = canonical(made["content"])
        if len(raw) <= INLINE_BYTES:
            return made
        pointer = f"work/{self.folder}/item/{len(self.items):03d}"
        self.texts.put(pointer, raw)
        return {"type": made["type"], "pointer": pointer}


def _content(part: Json) -> Item | None:
    """A value as it will be read back, or None when it is not JSON."""
    try:
        content, _ = sendable(part)
    except Unsendable:
        return None
    return {"type": "text" if isinstance(content, str) else "json", "content": content}


def withheld(item: Item) -> dict[str, Json]:
    """What may be said of an item that is not paid: its type. A size or a checksum would tell of its content."""
    return {"type": item["type"], "withheld": True}


def without_link(item: Item) -> dict[str, Json]:
    """A file that is not paid, where the operator gives unpaid output away: everything but its whereabouts."""
    return {name: value for name, value in item.items() if name != "key"} | {"withheld": True}
