"""The work table: executions, nonce claims and the ledger; every change of a record is one conditional transaction.

| pk                                   | sk                  | attributes                                         |
|--------------------------------------|---------------------|----------------------------------------------------|
| EXEC#<contract id>                   | EXEC                | state, version, lease, lease_until, write, payment |
|                                      |                     | record (JSON), told, told_writes, expires_at       |
| CLAIM#<chain>/<asset>/<from>/<nonce> | CLAIM               | contract, generation, status, write, expires_at    |
| the same                             | OWED                | row (JSON), write: the debt of one that was given  |
|                                      |                     | up and taken; no second one is written             |
| EXEC#<contract id>                   | MONEY#<version>#<…> | row (JSON), expires_at: one change of its payment  |
| LEDGER#<year-month>                  | <ms>#<contract>#<…> | row (JSON); refunds: debts_table.py                |

`write` is drawn anew for every write, so that a repeated request recognises its own first try. `told` holds items of
partial output as JSON, and `told_writes` the tokens of those that were added after the record was written.

The index `ByDay` holds records by the day they were made (`in_day`, `at_id`), and under RECEIVED#<day> the MONEY rows
by which money came, which stay as the ledger does. It holds keys alone, which never change, so only a first write costs
a unit there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from piecework.aws.attributes import Item
from piecework.aws.due_table import key_of, writes_between
from piecework.aws.listed import keys_of
from piecework.aws.table import THE_WORK, Table
from piecework.aws.writes import ABSENT, Delete, Key, Put, Update, Values, Write, at
from piecework.clock import now_in_ms
from piecework.durable.due import Due
from piecework.errors import LeaseLost
from piecework.jsons import Json, canonical, loads
from piecework.jsons.stored import known
from piecework.values import asdict
from piecework.worker.record.debts import Debt, DebtKey
from piecework.worker.record.execution import WEBHOOK_DUE, Execution
from piecework.worker.record.executions import Executions, LedgerKind, LedgerRow, Moved, NonceTaken
from piecework.worker.record.moves import MoneyMove
from piecework.worker.record.stored import flat, from_flat

if TYPE_CHECKING:
    from piecework.aws.table import Client

AS_READ: Final = "#state = :state AND version = :version"
AND_LAPSED: Final = " AND lease_until <= :now"
MINE: Final = "lease = :lease"
MINE_AND_NOT_TOLD: Final = f"{MINE} AND NOT contains(told_writes, :write)"
TELL: Final = "SET told = list_append(if_not_exists(told, :none), :one) ADD told_writes :writes"
LAST: Final = "9" * 8  # behind every version
OWN_ATTRIBUTES: Final = frozenset({"state", "version", "lease", "lease_until_ms", "payment", "items"})


class ExecutionsTable(Executions):
    """Executions in DynamoDB; due times go to their own table in the same transaction."""

    def __init__(self, client: Client, table: str, due_table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._table, self._due_table, self._clock = Table(client, table, THE_WORK), due_table, clock

    def read(self, contract_id: str) -> Execution | None:
        item = self._table.get(*_execution_key(contract_id))
        return from_item(item) if item else None

    def is_claimed(self, claim_key: str) -> bool:
        return self._table.get(*_claim_key(claim_key)) is not None

    def claim(self, before: Execution | None, after: Execution) -> None:
        write = _new_write()
        writes: list[Write] = [replacing(before, after, write), _nonce(after, write)]
        if before is not None and before.payment.claim_status == "active":
            writes += [_claim_status(before, "released"), self._due(before.released_due)]
        writes += writes_between(self._due_table, before.due if before else None, after.due)
        writes += self._doubts(before.doubt if before else None, after.doubt)
        writes += self._money(before, after)
        if failed := self._table.transact(writes):
            raise Moved if failed[0] else NonceTaken

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        self._move(replacing(before, after, _new_write()), before, after, ledger, webhook_at_ms)

    def take_over(self, before: Execution, after: Execution, now_ms: int) -> None:
        self._move(replacing(before, after, _new_write(), AND_LAPSED, {"now": now_ms}), before, after)

    def renew(self, contract_id: str, lease: str, until_ms: int) -> None:
        values = {"lease": lease, "until": until_ms}
        self._under_lease(contract_id, "SET lease_until = :until", MINE, values, ours={"lease": lease})

    def add_item(self, contract_id: str, lease: str, item: Mapping[str, Json]) -> None:
        write = _new_write()
        one = [canonical(dict(item)).decode()]
        values = {"lease": lease, "one": one, "none": [], "writes": frozenset({write}), "write": write}
        self._under_lease(contract_id, TELL, MINE_AND_NOT_TOLD, values, ours={"told_writes": write})

    def _under_lease(self, contract_id: str, update: str, condition: str, values: Values, ours: Values) -> None:
        """Change a record outside of versions, while the lease is still held."""
        if not self._table.update(_execution_key(contract_id), update, values, condition, ours=ours).done:
            raise LeaseLost("another runner has taken this task over")

    def add_debt(self, row: LedgerRow, claim_key: str) -> None:
        came = MoneyMove.of_released(row)
        owed = at((_claim_key(claim_key)[0], "OWED")) | {"row": _ledger_item(row)["row"], "write": _new_write()}
        self._table.transact(  # a row that is there stays, with its refund
            [
                Put(owed, condition=ABSENT),
                Put(_ledger_item(row), condition=ABSENT),
                Put(at(move_at(came)) | _received(came)),
            ]
        )

    def ledger(self, month: str) -> list[LedgerRow]:
        rows = self._table.query(f"LEDGER#{month}", consistent=False)
        found = [known(LedgerRow, loads(item["row"])) for item in rows]
        return sorted(found, key=lambda row: row.at_ms)  # refunds stand behind the others

    def _move(
        self,
        replacing: Put,
        before: Execution,
        after: Execution,
        ledger: Sequence[LedgerRow] = (),
        webhook_at_ms: int = 0,
    ) -> None:
        writes: list[Write] = [replacing, *writes_between(self._due_table, before.due, after.due)]
        writes += self._doubts(before.doubt, after.doubt)
        if before.payment.claim_status != after.payment.claim_status:
            writes.append(_claim_status(after, after.payment.claim_status))
            writes += [self._due(after.released_due)] if after.payment.claim_status == "released" else []
        writes += [Put(_ledger_item(row)) for row in ledger]
        writes += self._money(before, after)
        if webhook_at_ms:
            writes.append(self._due(Due(webhook_at_ms, WEBHOOK_DUE, after.contract_id)))
        if self._table.transact(writes):
            raise Moved

    def _money(self, before: Execution | None, after: Execution) -> list[Write]:
        """The row of what changed in the payment, if anything did."""
        move = MoneyMove.between(before, after, self._clock())
        return [Put(_money_item(move, before, after))] if move else []

    def _doubts(self, before: Due | None, after: Due | None) -> list[Write]:
        """The rows by which doubts are listed; one that lasts is written again, as earlier code wrote none."""
        gone: list[Write] = [Delete(key_of(before), table=self._due_table)] if before and before != after else []
        return gone + ([self._due(after)] if after else [])

    def _due(self, due: Due) -> Put:
        return Put(at(key_of(due)), table=self._due_table)


def replacing(
    before: Execution | None, after: Execution, write: str, condition: str = "", values: Values | None = None
) -> Put:
    """The write of a record in place of the one that was read; where none was read, of a first one."""
    item = to_item(after, write) | keys_of(index_key(after.contract_id), after.created_at_ms)
    if before is None:
        return Put(item, condition=ABSENT)
    as_read = {"state": before.state, "version": before.version}
    return Put(item, condition=AS_READ + condition, values={**as_read, **(values or {})})


def _nonce(execution: Execution, write: str) -> Put:
    item = at(_claim_key(execution.payment.claim_key)) | {
        "contract": execution.contract_id,
        "generation": execution.generation,
        "status": "active",
        "write": write,
        "expires_at": execution.expires_at,
    }
    return Put(item, condition=ABSENT)


def _claim_status(execution: Execution, status: str) -> Update:
    key, values = _claim_key(execution.payment.claim_key), {"status": status, "expires": execution.expires_at}
    return Update(key, "SET #status = :status, expires_at = :expires", values=values)


def _new_write() -> str:
    return secrets.token_hex(16)


def _execution_key(contract_id: str) -> Key:
    return f"EXEC#{contract_id}", "EXEC"


def _claim_key(claim: str) -> Key:
    return f"CLAIM#{claim}", "CLAIM"


def index_key(contract_id: str) -> str:
    """The digest by which the rows of a contract are spread over an index."""
    return sha256(contract_id.encode()).hexdigest()


def received_on(day_shard: str) -> str:
    """The partition of the index with the rows by which money came, for a partition of records."""
    return f"RECEIVED#{day_shard}"


def _money_item(move: MoneyMove, before: Execution | None, after: Execution) -> Item:
    item = at((_execution_key(move.contract_id)[0], f"MONEY#{move.version:08d}#{move.at_ms}"))
    if move.is_receipt_after(before):
        return item | _received(move)
    return item | row_of(move) | {"expires_at": after.expires_at}


def _received(move: MoneyMove) -> Item:
    """The attributes of a move by which money came."""
    listed = keys_of(index_key(move.contract_id), move.at_ms)
    return row_of(move) | listed | {"in_day": received_on(listed["in_day"])}


def row_of(move: MoneyMove) -> Item:
    """The attributes of a move of money."""
    return {"row": canonical(asdict(move)).decode()}


def move_at(move: MoneyMove) -> Key:
    """Where a move stands that belongs to no version of the record: behind those that do."""
    return _execution_key(move.contract_id)[0], f"MONEY#{LAST}#{move.at_ms}#{move.transaction}"


def month_of(at_ms: int) -> str:
    """The partition of the ledger's rows of a month."""
    return f"LEDGER#{datetime.fromtimestamp(at_ms // 1000, UTC).strftime('%Y-%m')}"


def ledger_key(kind: LedgerKind, key: DebtKey) -> Key:
    """Where a row of the ledger stands."""
    sort = f"{key.at_ms:015d}#{key.contract_id}#{key.generation}#{kind}#{key.transaction}"
    return month_of(key.at_ms), sort


def _ledger_item(row: LedgerRow) -> Item:
    stored = {name: value for name, value in asdict(row).items() if name != "debt"}  # that of a refund is debts_table's
    return at(ledger_key(row.kind, Debt(row).key)) | {"row": canonical(stored).decode()}


def to_item(execution: Execution, write: str) -> Item:
    """A record as it is written."""
    record = {key: value for key, value in flat(execution).items() if key not in OWN_ATTRIBUTES}
    item = at(_execution_key(execution.contract_id)) | {
        "state": execution.state,
        "version": execution.version,
        "lease": execution.lease.token,
        "lease_until": execution.lease.until_ms,
        "write": write,
        "record": canonical(record).decode(),
        "expires_at": execution.expires_at,
    }
    told = [canonical(dict(one)).decode() for one in execution.attempt.items]
    item |= {"told": told} if told else {}
    return item | ({"payment": execution.payment.document} if execution.payment.document else {})


def from_item(item: Item) -> Execution:
    """A stored record."""
    own = {
        "state": item["state"],
        "version": item["version"],
        "lease": item["lease"],
        "lease_until_ms": item["lease_until"],
        "payment": item.get("payment", ""),
        "items": [loads(one) for one in item.get("told", [])],
    }
    return from_flat({**loads(item["record"]), **own})
