"""GET /stream/{task_id}: what happens to a task, as server-sent events that can be resumed (worker specification 4.5).

Events are stored per task and generation (its `stream`), numbered without a gap: progress, and the output as it is
made where that may be given away: the task was paid before the work, or the operator lets unpaid output out. Elsewhere
progress is a whole percentage without a text. The first
reader that finds the task ended puts an end mark at the next number, which nothing later can pass; what follows it
(`output`, `item`, `error`, `done`) is made from the final body each time, less what was sent before. A file is stored
as its key and linked when it is read; before the task is paid it has no link.
"""

import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from piecework.clock import DAY_MS
from piecework.durable.pieces import Overflow
from piecework.errors import PieceworkError
from piecework.jsons import Json, canonical, loads
from piecework.values import dataclass, field, replace
from piecework.worker.answer.bodies import PAID, Bodies
from piecework.worker.answer.partial_output import Listener, without_link
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.door import clean
from piecework.worker.errors import WorkerError
from piecework.worker.ids import CONTRACT_ID
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions
from piecework.worker.record.values import Item

MAX_EVENTS: Final = 1_000  # stored for one task
MAX_BYTES: Final = 5 * 1024 * 1024
KEPT_MS: Final = DAY_MS  # after the end
TOKEN_MS: Final = DAY_MS
DELTA_CHARACTERS: Final = 65_536  # of a text in one `output` event
LIVE_BYTES: Final = 300_000  # of one event while the task runs; DynamoDB refuses items over 400 KB
RETRY_MS: Final = 2_000
HEARTBEAT: Final = b": alive\n"  # without a blank line, which some clients take for an empty event
END: Final = "end"
_TOKEN: Final = re.compile(r"([0-9]{10})\.(ctr_[A-Za-z0-9_-]{1,60})\.([0-9a-f]{64})")
_SEQUENCE: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a task's stream."""

    seq: int
    kind: str
    data: Mapping[str, Json]

    def frame(self, retry: bool = False) -> bytes:
        """The event as it goes over the wire."""
        first = f"retry: {RETRY_MS}\n" if retry else ""
        return f"{first}id: {self.seq}\nevent: {self.kind}\ndata: ".encode() + canonical(dict(self.data)) + b"\n\n"


class StreamLog(Protocol):
    """Keeps the events of a stream by number."""

    def append(self, stream: str, event: Event, expires_at: int) -> bool:
        """Keep an event, unless its number is taken: then False."""

    def read(self, stream: str) -> list[Event]:
        """Every event, in order, strongly consistent."""


@dataclass(slots=True)
class Recorder:
    """Records the events of one task; they are hints that may be lost, so they never fail a run."""

    log: StreamLog
    stream: str
    expires_at: int  # epoch seconds
    _last: int | None = None
    _bytes: int = 0
    _closed: bool = False

    def __call__(self, pct: float, text: str = "") -> None:
        self.tell("progress", {"pct": _percent(pct), "message": clean(text)})

    def tell(self, kind: str, data: Mapping[str, Json]) -> None:
        """Record one event."""
        try:
            while not self._closed and not self._append(kind, data):
                pass  # another runner of the same task was faster: read on from where it is
        except PieceworkError:
            return

    def _append(self, kind: str, data: Mapping[str, Json]) -> bool:
        if self._last is None:
            self._catch_up()
        seq = (self._last or 0) + 1
        event = Event(seq, kind, data)
        size = len(event.frame())
        self._closed = self._closed or seq >= MAX_EVENTS or self._bytes + size > MAX_BYTES
        if self._closed:
            return True
        if self.log.append(self.stream, event, self.expires_at):
            self._last, self._bytes = seq, self._bytes + size
            return True
        self._last = None
        return False

    def _catch_up(self) -> None:
        stored = self.log.read(self.stream)
        self._last = stored[-1].seq if stored else 0
        self._bytes = sum(len(event.frame()) for event in stored)
        self._closed = bool(stored) and stored[-1].kind == END


@dataclass(slots=True)
class Recording(Listener):
    """Records the events of the flow's tasks, with a recorder for the task at hand."""

    log: StreamLog
    unpaid_output: bool = False
    _recorder: Recorder | None = None

    def progress(self, execution: Execution, pct: float, text: str) -> None:
        if self._may_show(execution):
            self._of(execution)(pct, text)
        else:  # a text may quote what was made, and so may the digits behind the point
            self._of(execution)(float(int(_percent(pct))))

    def item(self, execution: Execution, item: Item) -> None:
        data = without_link(item) if item["type"] == "file" and not execution.is_paid else item
        if self._may_show(execution) and len(canonical(dict(data))) <= LIVE_BYTES:
            self._of(execution).tell("item", data)

    def delta(self, execution: Execution, index: int, text: str) -> None:
        if self._may_show(execution) and len(text) <= DELTA_CHARACTERS:
            self._of(execution).tell("output", {"index": index, "delta": text})

    def _may_show(self, execution: Execution) -> bool:
        return execution.is_paid or self.unpaid_output

    def _of(self, execution: Execution) -> Recorder:
        stream = stream_of(execution)
        recorder = self._recorder
        if recorder is None or recorder.stream != stream:
            recorder = Recorder(self.log, stream, events_until(execution))
        self._recorder = recorder
        return recorder


@dataclass(frozen=True, slots=True)
class Look:
    """What a task has come to: its final body (1.5) once it has ended and its payment is final."""

    stream: str
    final: Mapping[str, Json] | None = field(repr=False)
    finished_at_ms: int = 0


class Tasks(Protocol):
    """Finds tasks; one of another contract is as absent as an unknown one."""

    def look(self, contract_id: str, task_id: str) -> Look | None: ...

    def item(self, item: Item) -> Item:
        """An item that was finished before the end, as a reader sees it now."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is new for a reader; with `ended` nothing more will come."""

    events: Sequence[Event]
    ended: bool


@dataclass(frozen=True, slots=True)
class Streams:
    """Reads streams."""

    log: StreamLog
    tasks: Tasks
    clock: Callable[[], int]

    def after(self, contract_id: str, task_id: str, last_id: str) -> Batch:
        """The events after the one that a reader saw last; an id we never gave out means all of them.

        Raises:
            WorkerError: TASK_NOT_FOUND.
        """
        look = self.tasks.look(contract_id, task_id)
        if look is None:
            raise WorkerError("TASK_NOT_FOUND", "no such task")
        if look.finished_at_ms and look.finished_at_ms + KEPT_MS < self.clock():
            return Batch((), ended=True)
        stored = self.log.read(look.stream)
        events = stored if look.final is None else self._ended(stored, look)
        after = int(last_id) if _SEQUENCE.fullmatch(last_id) else 0
        known = after if after <= len(events) else 0
        return Batch([self._shown(event) for event in events[known:]], ended=look.final is not None)

    def _shown(self, event: Event) -> Event:
        return replace(event, data=self.tasks.item(event.data)) if "key" in event.data else event

    def _ended(self, stored: list[Event], look: Look) -> list[Event]:
        """Every event of an ended task; the end mark is set if it is not there."""
        while not stored or stored[-1].kind != END:
            mark = Event(len(stored) + 1, END, {})
            expires_at = (max(look.finished_at_ms, self.clock()) + 2 * KEPT_MS) // 1000
            stored = [*stored, mark] if self.log.append(look.stream, mark, expires_at) else self.log.read(look.stream)
        return [*stored[:-1], *final_events(len(stored), look.final or {}, stored[:-1])]


def final_events(first: int, body: Mapping[str, Json], before: Sequence[Event] = ()) -> list[Event]:
    """The events of a final body, numbered from `first`, less the output that was sent `before`."""
    kinds = [*_outputs(body.get("output"), before), *_errors(body.get("error")), ("done", body)]
    if sum(len(canonical(dict(data))) for _, data in kinds) > MAX_BYTES:
        kinds = kinds[-1:]  # `done` holds all of it once
    return [Event(first + place, kind, data) for place, (kind, data) in enumerate(kinds)]


def frames(events: Sequence[Event], *, first: bool) -> Iterator[bytes]:
    """The events as bytes; the first of an answer tells how soon to come back."""
    for place, event in enumerate(events):
        yield event.frame(retry=first and place == 0)


def events_until(execution: Execution) -> int:
    """When a task's events may be forgotten, epoch seconds: past the day after its end, however late that comes.

    A settlement that is unknown may end two days after the claim (2.8); a further day is for clocks and a late look.
    """
    return (max(execution.ends_at_ms, execution.created_at_ms + 2 * KEPT_MS) + 2 * KEPT_MS) // 1000


def stream_of(execution: Execution) -> str:
    """The stream of a task's input: another input starts another one."""
    return f"{execution.task_id}/{execution.generation}"


@dataclass(frozen=True, slots=True)
class HiredTasks:
    """Tasks as the flow keeps them; no executor is needed to tell of one that has ended."""

    contracts: Contracts
    executions: Executions
    bodies: Bodies
    texts: Overflow

    def item(self, item: Item) -> Item:
        return self.bodies.item(item)

    def look(self, contract_id: str, task_id: str) -> Look | None:
        execution = self.executions.read(contract_id)
        if execution is None or execution.task_id != task_id:
            return None
        if execution.forgotten:  # its end lies long ago, so nothing is read
            return Look(stream_of(execution), None, execution.outcome.finished_at_ms)
        contract = self.contracts.get(contract_id) if execution.is_ended else None
        if contract is None:
            return Look(stream_of(execution), None)
        return Look(stream_of(execution), self._final(execution, contract), execution.outcome.finished_at_ms)

    def _final(self, execution: Execution, contract: ContractRecord) -> Mapping[str, Json]:
        kept = execution.outcome.result
        if kept is None or execution.state not in PAID:
            return self.bodies.failed(execution, contract).body
        text = self.texts.get(kept.pointer) if kept.pointer is not None else kept.text
        return self.bodies.finished(execution, contract, loads(text or "null")).body


class StreamTokens:
    """Tokens for readers that cannot send headers: bound to one task, for a day."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def url(self, public_base_url: str | PublicUrl, contract_id: str, task_id: str, now_ms: int) -> str:
        """The stream's URL with a fresh token."""
        return f"{public_base_url}/stream/{task_id}?st={self.issue(contract_id, task_id, now_ms)}"

    def issue(self, contract_id: str, task_id: str, now_ms: int) -> str:
        """A token that ends in a day."""
        ends = f"{(now_ms + TOKEN_MS) // 1000:010d}"
        return f"{ends}.{contract_id}.{self._mac(ends, contract_id, task_id)}"

    def contract_of(self, token: str, task_id: str, now_ms: int) -> str:
        """The contract whose task may be read with this token.

        Raises:
            WorkerError: TASK_NOT_FOUND; it is wrong, has ended, or is another task's.
        """
        found = _TOKEN.fullmatch(token)
        if found:
            ends, contract_id, mac = found.groups()
            own = self._mac(ends, contract_id, task_id)
            if hmac.compare_digest(own, mac) and int(ends) * 1000 > now_ms:
                return contract_id
        raise WorkerError("TASK_NOT_FOUND", "no such task")

    def _mac(self, ends: str, contract_id: str, task_id: str) -> str:
        return hmac.new(self._key, f"stream/{task_id}/{contract_id}/{ends}".encode(), "sha256").hexdigest()


def reader_of(contract_ids: Sequence[str], token: str, task_id: str, tokens: StreamTokens, now_ms: int) -> str:
    """The contract that a reader names by header, or proves by token.

    Raises:
        WorkerError: INVALID_REQUEST; it does neither, or its id is malformed. TASK_NOT_FOUND: the token does not fit.
    """
    if token and not contract_ids:
        return tokens.contract_of(token, task_id, now_ms)
    if len(contract_ids) != 1 or not CONTRACT_ID.fullmatch(contract_ids[0]):
        raise WorkerError("INVALID_REQUEST", "send one X-Contract-ID header, or the st of the stream_url")
    return contract_ids[0]


def _outputs(output: Json, before: Sequence[Event]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    if not isinstance(output, dict):
        return
    if output.get("type") == "text":
        yield from _deltas(output["content"], before)
        return
    is_live = any(event.kind == "output" for event in before)
    sent = [_identity(event.data) for event in before if event.kind == "item" and "withheld" not in event.data]
    for item in output["items"] if output.get("type") == "multiple" else [output]:
        if is_live and item.get("type") == "text":  # begun as it was made: what is left of it follows
            yield from _deltas(item["content"], before)
        elif _identity(item) not in sent:
            yield "item", item


def _deltas(text: str, before: Sequence[Event]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """What is left of a text; a run whose deltas it does not begin with is left behind by a new index 0."""
    sent: list[str] = []
    for delta in [event.data for event in before if event.kind == "output"]:
        sent = [] if delta["index"] == 0 else sent
        if delta["index"] == len(sent):  # others belong to a run that was taken over
            sent.append(delta["delta"])
    begun = "".join(sent)
    index, done = (len(sent), len(begun)) if text.startswith(begun) else (0, 0)
    for place, start in enumerate(range(done, len(text), DELTA_CHARACTERS), index):
        yield "output", {"index": place, "delta": text[start : start + DELTA_CHARACTERS]}


def _identity(item: Mapping[str, Json]) -> tuple[Json, ...]:
    """What makes an item the one that was sent: of a file not its link."""
    return tuple(item.get(name) for name in ("type", "name", "checksum", "content"))


def _errors(error: Json) -> Iterator[tuple[str, Mapping[str, Json]]]:
    if error is not None:
        yield "error", {"error": error}


def _percent(pct: float) -> float:
    return min(100.0, max(0.0, float(pct)))  # in this order NaN becomes 0
