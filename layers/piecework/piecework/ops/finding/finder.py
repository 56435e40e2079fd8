"""What has an id, among pieces, hired work, webhooks and records of operators.

Where an id is a key, it is asked for by that key. Where nothing has it as its key, the lists by time are looked through
for what has it among its other ids, backwards from a time: one page of each list, so 512 rows of it at most.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from piecework.edge.roles import Caller
from piecework.jsons import Json
from piecework.ops.access import READS, require
from piecework.ops.finding.answers import MOST_FOUND, Found, Looked, Sought, body_of
from piecework.ops.listing import DAY_MS, TIME_DIGITS, Place, Row, Rows, page_of
from piecework.ops.pieces import IDS, KEY, PieceRows
from piecework.ops.pieces import LONGEST_LIFE_MS as PIECES_MS
from piecework.ops.records import RecordRows
from piecework.ops.tasks import LONGEST_LIFE_MS as TASKS_MS
from piecework.ops.tasks import MOST_DELIVERIES, WorkerRows
from piecework.ops.verdicts import CUT
from piecework.worker.ids import CONTRACT_ID, TASK_ID
from piecework.worker.record.execution import Execution
from piecework.worker.webhook.webhooks import EVENTS, event_id_of

RECORD: Final = re.compile(r"[0-9a-f]{32}")
EVENT_ID: Final = re.compile(r"evt_[0-9a-f]{32}")
WORD: Final = re.compile(r"0x[0-9a-fA-F]{64}")  # a nonce, or a transaction
WALLET: Final = re.compile(r"0x[0-9a-fA-F]{40}")
HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")  # of a contract
KINDS: Final = ("piece", "task", "contract", "webhook", "record")
BY: Final = ("key", *IDS, "contract_id", "nonce", "transaction", "payer", "event_id", "hash", "record_id")
GENERATIONS: Final = 10  # the last ones of a task, whose events are compared

Has = Callable[[Execution], bool]
Both = tuple[list[Found], list[Looked]]


class Finder:
    """Looks for ids; `tasks` is None where the worker door is not deployed."""

    def __init__(
        self, pieces: PieceRows, records: RecordRows, tasks: WorkerRows | None, clock: Callable[[], int]
    ) -> None:
        self._pieces, self._records, self._tasks, self._clock = pieces, records, tasks, clock

    def find(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """What has the id, and where it was looked for.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: the query has no id, or what cannot be one.
        """
        require(caller, READS)
        sought = Sought.of(query, self._clock())
        found, looked = self._by_key(sought.id)
        for look in self._lists(sought) if not found else ():
            more, where = look(sought)
            found, looked = found + more, looked + where
        return body_of(found, looked)

    def _by_key(self, wanted: str) -> Both:
        found, looked = list[Found](), list[Looked]()
        if KEY.fullmatch(wanted):
            piece = self._pieces.read(wanted)
            found += [Found("piece", wanted, "key")] if piece and not piece.is_expired(self._clock()) else []
            looked.append(Looked("piece", "key"))
        if RECORD.fullmatch(wanted):
            [record] = self._records.find([{"pk": f"OPS#{wanted}"}])
            found += [Found("record", wanted, "record_id", record.target, record.at_ms)] if record else []
            looked.append(Looked("record", "record_id"))
        if self._tasks and CONTRACT_ID.fullmatch(wanted):
            kinds = {"task": self._tasks.executions([wanted]), "contract": self._tasks.heads([wanted])}
            found += [Found(kind, wanted, "contract_id") for kind, rows in kinds.items() if wanted in rows][:1]
            looked += [Looked(kind, "contract_id") for kind in kinds]
        return found, looked

    def _lists(self, sought: Sought) -> list[Callable[[Sought], Both]]:
        """The lists in which something may have an id of this form."""
        looks: list[Callable[[Sought], Both]] = [self._among_pieces]
        if self._tasks and any(form.fullmatch(sought.id) for form in (TASK_ID, EVENT_ID, WORD, WALLET)):
            looks.append(partial(self._among_tasks, self._tasks))
        if self._tasks and HASH.fullmatch(sought.id):
            looks.append(partial(self._among_contracts, self._tasks))
        return looks

    def _among_pieces(self, sought: Sought) -> Both:
        wanted = self._pieces.shown(sought.id)
        is_whole = wanted == sought.id and not wanted.endswith(CUT)

        def look(rows: Sequence[Row]) -> list[Found | None]:
            pieces, found = self._pieces.find([row["pk"] for row in rows]), list[Found | None]()
            for row in rows:
                piece = pieces.get(row["pk"])
                ids = dict(zip(IDS, piece.origin.ids, strict=False)) if piece and piece.origin else {}
                by = next((name for name, one in ids.items() if one == wanted), "")
                found.append(Found("piece", row["pk"], by, is_whole=is_whole) if by else None)
            return found

        found, since_ms = _looked_through(self._pieces, sought, PIECES_MS, look)
        return _once(found), [Looked("piece", name, since_ms) for name in IDS]

    def _among_tasks(self, tasks: WorkerRows, sought: Sought) -> Both:
        tests = _tests(sought.id)

        def look(rows: Sequence[Row]) -> list[Found | None]:
            names = [str(row["pk"]).partition("#")[2] for row in rows]
            standing = tasks.executions(names)
            return [_named(standing[name], tests) if name in standing else None for name in names]

        found, since_ms = _looked_through(tasks.tasks, sought, TASKS_MS, look)
        found = [_kept_webhook(tasks, one, sought.id) if one.by == "event_id" else one for one in found]
        return found, [Looked(_kind(by), by, since_ms) for by in tests]

    def _among_contracts(self, tasks: WorkerRows, sought: Sought) -> Both:
        def look(rows: Sequence[Row]) -> list[Found | None]:
            names = [str(row["pk"]) for row in rows]
            heads = tasks.heads(names)
            return [
                Found("contract", one, "hash") if one in heads and heads[one].hash == sought.id else None
                for one in names
            ]

        found, since_ms = _looked_through(tasks.contracts, sought, TASKS_MS, look)
        return found, [Looked("contract", "hash", since_ms)]


def _looked_through(
    rows: Rows, sought: Sought, life_ms: int, look: Callable[[Sequence[Row]], list[Found | None]]
) -> tuple[list[Found], int | None]:
    """What a page of a list has, and since when all of it was seen; None where that is all of the list."""
    found = list[Found]()

    def noted(part: Sequence[Row]) -> list[Json | None]:
        made = look(part)
        found.extend(one for one in made if one is not None)
        return [None if one is None else one.id for one in made]

    page = page_of(rows, Place.of("", sought.until_ms), sought.now_ms - life_ms, MOST_FOUND, noted)
    return found[:MOST_FOUND], _since(page.next) if page.next else None


def _since(place: Place) -> int:
    """The time down to which a list was read."""
    return place.day * DAY_MS + (int(place.before[:TIME_DIGITS]) if place.before else DAY_MS)


def _once(found: Sequence[Found]) -> list[Found]:
    """Each piece once: one that was claimed anew has had a row of each day."""
    return list({one.id: one for one in found}.values())


def _tests(wanted: str) -> dict[str, Has]:
    """By which of its ids a task may be meant."""
    if TASK_ID.fullmatch(wanted):
        return {"task_id": lambda task: task.task_id == wanted}
    if EVENT_ID.fullmatch(wanted):
        return {"event_id": lambda task: wanted in _event_ids(task)}
    lower = wanted.lower()
    if WALLET.fullmatch(wanted):
        return {"payer": lambda task: task.payment.payer.lower() == lower}
    return {
        "nonce": lambda task: task.payment.claim_key.rpartition("/")[2].lower() == lower,
        "transaction": lambda task: lower in _transactions(task),
    }


def _named(task: Execution, tests: Mapping[str, Has]) -> Found | None:
    by = next((name for name, has in tests.items() if has(task)), "")
    return Found(_kind(by), task.contract_id, by) if by else None


def _kind(by: str) -> str:
    return "webhook" if by == "event_id" else "task"


def _event_ids(task: Execution) -> set[str]:
    """The ids of all events that its webhooks can have told of."""
    first = max(1, task.generation - GENERATIONS + 1)
    generations = range(first, task.generation + 1)
    return {event_id_of(task.task_id, generation, status) for generation in generations for status in EVENTS}


def _transactions(task: Execution) -> set[str]:
    """Those that took the payment or may have, and the one that paid it back."""
    settlement = task.settlement
    words = [str(said.get("transaction", "")) for said in (settlement.receipt, settlement.refund) if said]
    return {named.lower() for named in (*settlement.hashes, *words)}


def _kept_webhook(tasks: WorkerRows, found: Found, event_id: str) -> Found:
    """The webhook of an event; its task, where it is not kept or the contract names no address."""
    kept = tasks.deliveries(found.id, MOST_DELIVERIES)
    if any(one.event_id == event_id for one in kept):
        return Found("webhook", event_id, "event_id", found.id)
    return Found("task", found.id, "event_id")
