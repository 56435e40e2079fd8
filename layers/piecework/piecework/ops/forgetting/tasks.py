"""Forgetting what a contract and its task were about; the money stays, with all that proves it.

| crash after     | what stands, and what a repeat does                                                              |
|-----------------|--------------------------------------------------------------------------------------------------|
| the note        | seekers get what they get for a result past its time; the contract's text and objects are there  |
| some was erased | the same; erasing begins anew, and passes over what is gone                                      |
| all was erased  | only the note says `complete: false`; a repeat finds nothing more, and corrects it               |

The note comes first and is a version of the record: whatever else was about to be written is refused. It empties the
record and dates its end back, so that earlier code, too, takes it for one past its time: never worked on, never paid.
A contract that nobody has paid for gets such a record, so that nobody can any more.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from piecework.durable.forgotten import Forgotten
from piecework.errors import NotFound, Unavailable
from piecework.jsons import Json
from piecework.ops.forgetting.erasing import TRIES, Objects, StillNeeded, Waiting
from piecework.ops.records import Record
from piecework.values import replace
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.record.execution import KEPT_DAYS, Execution
from piecework.worker.record.states import State
from piecework.worker.record.values import (
    NO_LEASE,
    Attempt,
    BoundPayment,
    Failure,
    Kept,
    Settlement,
    TaskOutcome,
)
from piecework.worker.task.work import attempt_key
from piecework.worker.webhook.webhooks import event_id_of

LONG_AGO_MS: Final = 1  # the end of a forgotten record, for code that does not know the note
WORK_DAYS: Final = 3  # from a task's beginning to its end at most, so that its record stays as long as before
NOTHING: Final = "null"
DECIDED: Final = frozenset({"settled", "settled_unconfirmed", "not_charged", "failed"})
NO_TEXT: Final = "what this was about is forgotten"
NOT_ENDED: Final = "the task has not ended; forget it when it has"
WHY: Final = {  # states that say more than that
    State.RESULT_READY: "the task's payment is authorized and not settled",
    State.SETTLING: "the task's payment is being settled",
    State.UNKNOWN: "the task's payment is in doubt; resolve it first",
    State.UNPAID: "the task may still be paid; it ends by its deadline",
}


class ForgettableTasks(Protocol):
    """The worker's rows, as who forgets them reaches them; every write is conditional."""

    def execution(self, contract_id: str) -> Execution | None:
        """The record, strongly consistent."""

    def contract(self, contract_id: str) -> ContractRecord | None:
        """The contract, strongly consistent."""

    def begin(self, execution: Execution) -> bool:
        """Write a contract's first record; False when it has one."""

    def move(self, before: Execution, after: Execution) -> bool:
        """Replace a record; False when it is not `before` any more."""

    def reduce(self, contract: ContractRecord, document: dict[str, Json]) -> None:
        """Put what stays of a contract in its place, without its webhook's secret."""

    def stop_webhooks(self, contract_id: str) -> None:
        """Have no webhook of this contract sent any more."""

    def empty_webhooks(self, contract_id: str, event_ids: list[str]) -> bool:
        """Empty all that are kept, and put empty ones where these are not; False when others write to them."""

    def close_stream(self, stream: str) -> Iterator[str]:
        """Let nothing follow in a stream; the numbers of its events that hold something."""

    def empty_event(self, stream: str, number: str) -> None:
        """Take out what an event of a stream holds; its number and kind stay."""

    def steps(self, piece: str) -> Iterator[str]:
        """The keys of the recorded steps of an attempt, as the index shows them."""

    def drop_step(self, key: str) -> None:
        """Remove a recorded step."""


class ForgetTasks:
    """Forgets contracts whose task has ended, or that have none, and whose money is decided."""

    def __init__(
        self, rows: ForgettableTasks, objects: Objects, clock: Callable[[], int], sleep: Callable[[float], None]
    ) -> None:
        self._rows, self._objects, self._clock, self._sleep = rows, objects, clock, sleep

    def forget(self, contract_id: str, record: Record) -> dict[str, Json]:
        """Note it and erase, for a bounded time; who asked first stays in the note.

        Raises:
            NotFound: neither the contract nor its task is kept.
            StillNeeded: the task has not ended, or its money is not decided.
            Unavailable: a store is out of reach, or too many write to it.
        """
        waiting = Waiting(self._clock, self._sleep)
        execution, note = self._noted(contract_id, record)
        done = self._erase(execution, note, waiting)
        if done and not note.complete:
            after = replace(execution, version=execution.version + 1, forgotten=replace(note, complete=True))
            done = self._rows.move(execution, after)
        return {"state": str(execution.state), "complete": done, "had_task": bool(execution.task_id)}

    def _noted(self, contract_id: str, record: Record) -> tuple[Execution, Forgotten]:
        for _ in range(TRIES):
            found, now_ms = self._rows.execution(contract_id), self._clock()
            if found is not None and found.forgotten:
                return found, found.forgotten
            note = Forgotten(now_ms, record.by, record.record_id, ended_at_ms=_ended_at(found))
            if found is None:
                if self._rows.contract(contract_id) is None:
                    raise NotFound("this contract is not known, or it is not kept any more")
                made = never_begun(contract_id, note)
                if self._rows.begin(made):
                    return made, note
            else:
                if why := why_needed(found):
                    raise StillNeeded(why)
                made = emptied(found, note)
                if self._rows.move(found, made):
                    return made, note
        raise Unavailable("too many write to this task; try again")

    def _erase(self, execution: Execution, note: Forgotten, waiting: Waiting) -> bool:
        contract_id = execution.contract_id
        contract = self._rows.contract(contract_id)
        if contract is not None:
            self._rows.reduce(contract, reduced(contract.document))
        self._rows.stop_webhooks(contract_id)
        if not self._rows.empty_webhooks(contract_id, _events(execution)):
            return False
        for stream in _streams(execution):
            for number in self._rows.close_stream(stream):
                if not waiting.has_time():
                    return False
                self._rows.empty_event(stream, number)
        prefixes = (f"work/{contract_id}/", f"deliverables/{contract_id}/")
        if not all(self._objects.erase(prefix, waiting.has_time) for prefix in prefixes):
            return False
        waiting.settle(note.at_ms)
        return self._drop_steps(execution, waiting)

    def _drop_steps(self, execution: Execution, waiting: Waiting) -> bool:
        for piece in _attempts(execution):
            for step in self._rows.steps(piece):
                if not waiting.has_time():
                    return False
                self._rows.drop_step(step)
        return waiting.has_time()


def why_needed(execution: Execution) -> str:
    """Why a task cannot be forgotten yet; empty when it can."""
    if not execution.is_ended:
        return WHY.get(execution.state, NOT_ENDED)
    if execution.owes_refund:
        return "the seeker is owed the payment back; the task is what that is judged by"
    return "" if execution.settlement.status in DECIDED else "the task's payment is not decided"


def emptied(execution: Execution, note: Forgotten) -> Execution:
    """The next version of a record: ids, state, payment and receipt, but not the work."""
    failure = execution.outcome.failure
    outcome = TaskOutcome(
        worked_ms=execution.outcome.worked_ms,
        is_partial=execution.outcome.is_partial,
        failure=Failure(failure.code, NO_TEXT) if failure else None,
        finished_at_ms=LONG_AGO_MS,
        keeps_days=max(KEPT_DAYS, execution.outcome.keeps_days) + WORK_DAYS,
    )
    return replace(
        execution,
        version=execution.version + 1,
        body_digest="",  # a digest of a short text can be guessed
        input=Kept(NOTHING),
        payment=replace(execution.payment, document=""),
        attempt=replace(execution.attempt, items=()),
        lease=NO_LEASE,
        outcome=outcome,
        due_ms=0,
        has_webhook=False,
        forgotten=note,
    )


def never_begun(contract_id: str, note: Forgotten) -> Execution:
    """The record of a contract that nobody has paid for, by which nobody can."""
    return Execution(
        contract_id=contract_id,
        task_id="",
        state=State.TIMED_OUT,
        version=1,
        generation=1,
        body_digest="",
        executor="",
        created_at_ms=note.at_ms,
        ends_at_ms=note.at_ms,
        input=Kept(NOTHING),
        payment=BoundPayment("", "", 0, claim_status="released"),
        attempt=Attempt(0, 0),
        settlement=Settlement(status="not_charged"),
        outcome=TaskOutcome(finished_at_ms=LONG_AGO_MS),
        forgotten=note,
    )


def reduced(document: dict[str, Json]) -> dict[str, Json]:
    """What stays of a contract: who owes whom how much, by when, and the hash that both have signed."""
    parties, terms = document["parties"], document["terms"]
    kept = {name: terms[name] for name in ("deadline", "payment_trigger", "accept_partial") if name in terms}
    kept["price"] = _only(terms["price"], "amount", "currency", "network")
    kept["platform_fee"] = _only(terms["platform_fee"], "percentage", "wallet")
    return {
        **_only(document, "version", "contract_id", "created_at", "hash"),
        "parties": {role: _only(parties[role], "agent_id", "wallet") for role in ("seeker", "worker")},
        "task": {"description": ""},
        "terms": kept,
        "sla": _only(document.get("sla", {}), "max_latency_ms"),
    }


def _only(members: dict[str, Json], *names: str) -> dict[str, Json]:
    return {name: members[name] for name in names if name in members}


def _ended_at(execution: Execution | None) -> int:
    return execution.outcome.finished_at_ms if execution else 0


def _streams(execution: Execution) -> list[str]:
    generations = range(1, execution.generation + 1) if execution.task_id else ()
    return [f"{execution.task_id}/{generation}" for generation in generations]


def _attempts(execution: Execution) -> list[str]:
    """The keys of steps; of earlier inputs nobody knows how often they were tried, so all that were allowed."""
    numbers = range(1, execution.attempt.most + 1)
    generations = range(1, execution.generation + 1)
    return [attempt_key(execution.contract_id, one, number) for one in generations for number in numbers]


def _events(execution: Execution) -> list[str]:
    """The ids of webhooks that somebody may be about to keep: each input may have failed, and the last one ended."""
    if not execution.task_id:
        return []
    ends = {"partial": State.PARTIAL_FINAL, "completed": State.COMPLETED}
    last = next((word for word, state in ends.items() if state is execution.state), "failed")
    told = [(generation, "failed") for generation in range(1, execution.generation + 1)]
    return [event_id_of(execution.task_id, *one) for one in dict.fromkeys([*told, (execution.generation, last)])]
