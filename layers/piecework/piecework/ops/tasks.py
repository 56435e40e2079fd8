"""Contracts and tasks of the worker door: lists by time and state, one task with its money and webhooks, the ledger.

A contract has one task at most, so a contract's id names both. Ids of tasks are left out: with its contract's id, one
opens the task at the worker door. What a task was given and what it made is never shown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, get_args

from piecework.edge.roles import Caller
from piecework.errors import BadRequest, NotFound
from piecework.jsons import Json
from piecework.ops.access import READS, require
from piecework.ops.listing import AHEAD_MS, DAY_MS, LARGEST_PAGE, PAGE, Place, Row, Rows, page_of
from piecework.ops.query import MOST_MS, number, one_of, texts
from piecework.values import asdict
from piecework.worker.record.debts import REFUND_DUE, Debt, DebtKey, Refund, owed_by
from piecework.worker.record.execution import KEPT_DAYS, Execution
from piecework.worker.record.executions import LedgerKind
from piecework.worker.record.moves import RELEASED, MoneyMove, at_stake
from piecework.worker.record.states import State
from piecework.worker.record.values import PaymentStatus

LONGEST_LIFE_MS: Final = 200 * DAY_MS  # a contract: 90 days to its deadline, and 100 behind it
MOST_MOVES: Final = 100  # of one task's money, the newest of them
MOST_DELIVERIES: Final = 50
MOST_LEDGER_ROWS: Final = 1_000  # of one day that are added up
OWED_BACK: Final = "still_owed_back"  # of what became owed back on a day
TOTALS: Final = ("received", *get_args(LedgerKind), OWED_BACK)  # of each network
NO_TASK: Final = "SIGNED"  # the state of a contract that nobody has paid for
NOT_KEPT: Final = "NOT_KEPT"  # the same of one whose task, if it had one, may be gone by now
KEPT_MS: Final = (KEPT_DAYS + 1) * DAY_MS  # that a task's record is kept for at least
STATES: Final = tuple(state.value for state in State)


class ContractHead(NamedTuple):
    """What a list shows of a contract."""

    contract_id: str
    stored_at_ms: int
    expires_at: int  # epoch seconds
    source: str
    hash: str


class DeliveryHead(NamedTuple):
    """What an operator sees of a webhook."""

    event_id: str
    host: str  # of its address, whose path may hold a secret
    state: str
    attempt: int  # that comes next, or was the last
    tries: Sequence[tuple[int, int | None, int]] = ()  # number, status of the answer or None, and when it ended


class WorkerRows(Protocol):
    """Rows of the worker's tables; each method is a bounded number of requests."""

    @property
    def tasks(self) -> Rows: ...

    @property
    def contracts(self) -> Rows: ...

    def executions(self, contract_ids: Sequence[str]) -> Mapping[str, Execution]:
        """Those of the records that are there, strongly consistent."""

    def heads(self, contract_ids: Sequence[str]) -> Mapping[str, ContractHead]:
        """Those of the contracts that are there, strongly consistent."""

    def moves(self, contract_id: str, limit: int) -> list[MoneyMove]:
        """The moves of a task's money, the newest first."""

    def deliveries(self, contract_id: str, limit: int) -> list[DeliveryHead]:
        """The webhooks of a contract."""

    def owed(self, day: int, limit: int) -> list[Debt]:
        """What became owed on a day (its number since 1970), the oldest first, each with its refund."""

    def refunds(self, day: int, limit: int) -> list[Refund]:
        """What was said on a day to be paid back, the oldest first."""

    def debts(self, keys: Sequence[DebtKey]) -> list[Debt]:
        """Those of the debts that are there, in the order of the keys, strongly consistent."""

    def received(self, day: int, limit: int) -> list[MoneyMove]:
        """The moves by which money came on a day, the oldest first."""


class TaskViews:
    """What operators see of contracts, tasks and money."""

    def __init__(self, rows: WorkerRows, clock: Callable[[], int], complete_from: str = "") -> None:
        """`complete_from` is the first day, as 2026-11-29, on which each payment has a row; empty: not known."""
        self._rows, self._clock, self._complete_from = rows, clock, complete_from

    def tasks(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A page of tasks by the time that they were made, the newest first.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: a parameter has no meaning.
        """
        require(caller, READS)
        asked = texts(query, "state", "payment", "since_ms", "until_ms", "limit", "cursor")
        state, payment = one_of(asked, "state", STATES), one_of(asked, "payment", get_args(PaymentStatus))

        def look(rows: Sequence[Row]) -> list[Json | None]:
            found = self._rows.executions([_contract_of(row) for row in rows])
            standing = [found.get(_contract_of(row)) for row in rows]
            return [None if one is None else self._if(_task(one), state, payment) for one in standing]

        return self._page(self._rows.tasks, asked, look)

    def contracts(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """A page of contracts by the time that they came, the newest first; their state is their task's.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: a parameter has no meaning.
        """
        require(caller, READS)
        asked = texts(query, "state", "since_ms", "until_ms", "limit", "cursor")
        state = one_of(asked, "state", (NO_TASK, NOT_KEPT, *STATES))

        def look(rows: Sequence[Row]) -> list[Json | None]:
            ids = [row["pk"] for row in rows]
            heads, tasks, now_ms = self._rows.heads(ids), self._rows.executions(ids), self._clock()
            shown = {one: _contract(head, tasks.get(one), now_ms) for one, head in heads.items()}
            return [self._if(shown[one], state) if one in shown else None for one in ids]

        return self._page(self._rows.contracts, asked, look)

    def task(self, caller: Caller, contract_id: str) -> dict[str, Json]:
        """A contract's task, every move of its money that is kept, and its webhooks.

        Raises:
            Forbidden: the caller may not read.
            NotFound: the contract has no task.
        """
        require(caller, READS)
        found = self._rows.executions([contract_id]).get(contract_id)
        if found is None:
            raise NotFound("this contract is not known, nobody has paid for it, or its task is not kept any more")
        moves = self._rows.moves(contract_id, MOST_MOVES + 1)
        deliveries = self._rows.deliveries(contract_id, MOST_DELIVERIES + 1)
        failure = found.failure
        return {
            **_task(found),
            "failure": {"code": failure.code, "message": failure.message} if failure else None,
            "payer": found.payment.payer,
            "nonce": found.payment.claim_key.rpartition("/")[2],
            "valid_before_ms": found.payment.valid_before * 1000,
            "claim": found.payment.claim_status,
            "transactions_named": list(found.settlement.hashes),
            "receipt": dict(found.settlement.receipt) if found.settlement.receipt else None,
            "resolution": dict(found.settlement.resolution) if found.settlement.resolution else None,
            "debts": [_debt(debt) for debt in self._debts(found, moves[:MOST_MOVES])],
            "moves": [_move(move) for move in moves[:MOST_MOVES]],
            "has_more_moves": len(moves) > MOST_MOVES,
            "webhooks": [_webhook(one) for one in deliveries[:MOST_DELIVERIES]],
            "has_more_webhooks": len(deliveries) > MOST_DELIVERIES,
        }

    def ledger(self, caller: Caller, query: Mapping[str, Sequence[str]]) -> dict[str, Json]:
        """What was received on a day beside what became owed, row by row and in all.

        Raises:
            Forbidden: the caller may not read.
            BadRequest: the day has no meaning.
        """
        require(caller, READS)
        asked = texts(query, "day")
        day = _day(asked.get("day", ""), self._clock())
        received = self._rows.received(day, MOST_LEDGER_ROWS + 1)
        owed = self._rows.owed(day, MOST_LEDGER_ROWS + 1)
        refunds = self._rows.refunds(day, MOST_LEDGER_ROWS + 1)
        is_cut = max(len(received), len(owed), len(refunds)) > MOST_LEDGER_ROWS
        received, owed, refunds = received[:MOST_LEDGER_ROWS], owed[:MOST_LEDGER_ROWS], refunds[:MOST_LEDGER_ROWS]
        return {
            "day": _text_of(day),
            "received": [_move(move) for move in received],
            "owed": [_owed(debt) for debt in owed],
            "refunds": [_refund(refund) for refund in refunds],
            "totals_atomic": _totals(received, owed, refunds),
            "is_complete": False if is_cut else self._is_complete(day),
            "complete_from": self._complete_from or None,
            "without_amount": sum(move.atomic is None for move in received),
        }

    def _debts(self, task: Execution, moves: Sequence[MoneyMove]) -> list[Debt]:
        """What a task owes back, or did owe: for work that failed, and for payments that were given up and came."""
        released = [move for move in moves if move.payment == RELEASED]
        keys = [DebtKey(task.contract_id, move.at_ms, move.generation, move.transaction) for move in released]
        keys += [own] if (own := owed_by(task)) else []
        return self._rows.debts(keys) if keys else []

    def _is_complete(self, day: int) -> bool | None:
        """Whether all that was received on a day has rows; None: nobody has said since when."""
        return _text_of(day) >= self._complete_from if self._complete_from else None

    def _page(
        self, rows: Rows, asked: Mapping[str, str], look: Callable[[Sequence[Row]], list[Json | None]]
    ) -> dict[str, Json]:
        now_ms = self._clock()
        until_ms = min(number(asked, "until_ms", MOST_MS, MOST_MS), now_ms + AHEAD_MS)
        since_ms = max(number(asked, "since_ms", 0, MOST_MS), now_ms - LONGEST_LIFE_MS)
        size = number(asked, "limit", PAGE, LARGEST_PAGE, least=1)
        return page_of(rows, Place.of(asked.get("cursor", ""), until_ms), since_ms, size, look).to_json()

    def _if(self, item: dict[str, Json], state: str, payment: str = "") -> Json | None:
        return item if state in ("", item["state"]) and payment in ("", item.get("payment")) else None


def _contract_of(row: Row) -> str:
    return str(row["pk"]).partition("#")[2]


def _task(execution: Execution) -> dict[str, Json]:
    forgotten = execution.forgotten
    network, atomic = at_stake(execution)
    return {
        "contract_id": execution.contract_id,
        "state": str(execution.state),
        "payment": execution.settlement.status,
        "executor": execution.executor,
        "generation": execution.generation,
        "attempt": execution.attempt.number,
        "attempts": execution.attempt.most,
        "created_at_ms": execution.created_at_ms,
        "finished_at_ms": (forgotten.ended_at_ms if forgotten else execution.outcome.finished_at_ms) or None,
        "is_in_doubt": execution.state is State.UNKNOWN,
        "is_owed_back": execution.owes_refund,
        "next_look_at_ms": execution.due_ms or None,
        "looks": execution.settlement.looks,
        "forgotten": forgotten.to_json() if forgotten else None,
        "network": network,
        "atomic": None if atomic is None else str(atomic),
    }


def _contract(head: ContractHead, task: Execution | None, now_ms: int) -> dict[str, Json]:
    without = NO_TASK if now_ms < head.stored_at_ms + KEPT_MS else NOT_KEPT
    return {
        "contract_id": head.contract_id,
        "state": str(task.state) if task else without,
        "source": head.source,
        "hash": head.hash,
        "stored_at_ms": head.stored_at_ms,
        "expires_at_ms": head.expires_at * 1000,
    }


def _move(move: MoneyMove) -> dict[str, Json]:
    shown: dict[str, Json] = asdict(move)
    return {**shown, "hashes": list(move.hashes), "atomic": None if move.atomic is None else str(move.atomic)}


def _webhook(head: DeliveryHead) -> dict[str, Json]:
    tries: list[Json] = [{"attempt": made[0], "status": made[1], "at_ms": made[2]} for made in head.tries]
    return {**head._asdict(), "tries": tries}


def _totals(received: Sequence[MoneyMove], owed: Sequence[Debt], refunds: Sequence[Refund]) -> dict[str, Json]:
    """The sums of each network: coins of a test network are not money."""
    sums: dict[str, dict[str, int]] = {}
    came = [(move.network, "received", move.atomic or 0) for move in received]
    due = [(debt.row.network, str(debt.row.kind), debt.row.atomic) for debt in owed]
    still = [(debt.row.network, OWED_BACK, debt.row.atomic) for debt in owed if debt.is_owed]
    back = [(refund.network, refund.kind, refund.atomic) for refund in refunds]
    for network, kind, atomic in [*came, *due, *still, *back]:
        of_network = sums.setdefault(network, dict.fromkeys(TOTALS, 0))
        of_network[kind] += atomic
    return {network: {kind: str(sums[network][kind]) for kind in TOTALS} for network in sorted(sums)}


def _owed(debt: Debt) -> dict[str, Json]:
    shown: dict[str, Json] = asdict(debt.row)
    is_back = debt.row.kind == REFUND_DUE
    return {name: value for name, value in shown.items() if name != "task_id"} | {
        "atomic": str(debt.row.atomic),
        "debt": debt.key.name if is_back else None,
        "refund": debt.refund.word if debt.refund else None,
    }


def _debt(debt: Debt) -> dict[str, Json]:
    return {name: value for name, value in _owed(debt).items() if name not in ("kind", "contract_id")}


def _refund(refund: Refund) -> dict[str, Json]:
    shown: dict[str, Json] = asdict(refund)
    return {name: value for name, value in shown.items() if name != "task_id"} | {"atomic": str(refund.atomic)}


def _day(text: str, now_ms: int) -> int:
    """A day as `2026-11-29`; without one, today (UTC). Raises BadRequest."""
    from datetime import UTC, datetime

    if not text:
        return now_ms // DAY_MS
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise BadRequest("day must be a day as 2026-11-29") from None
    if day.year < 1970 or day.strftime("%Y-%m-%d") != text:
        raise BadRequest("day must be a day as 2026-11-29")
    return int(day.timestamp()) * 1000 // DAY_MS


def _text_of(day: int) -> str:
    from time import gmtime, strftime

    return strftime("%Y-%m-%d", gmtime(day * DAY_MS // 1000))
