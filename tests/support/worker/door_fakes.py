"""The worker door's ports in memory; each passes the same contract tests as its AWS adapter."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from piecework.durable.due import Due, DueTimes
from piecework.errors import LeaseLost
from piecework.jsons import canonical
from piecework.worker.record.execution import WEBHOOK_DUE, Execution
from piecework.worker.record.executions import Executions, LedgerRow, Moved, NonceTaken
from piecework.worker.record.stored import flat
from piecework.worker.record.values import Item, Lease
from tests.support.fakes import check_size


@dataclass
class FakeDueTimes(DueTimes):
    """Due times in a set."""

    rows: set[Due] = field(default_factory=set)

    def put(self, due: Due) -> None:
        self.rows.add(due)

    def remove(self, due: Due) -> None:
        self.rows.discard(due)

    def ripe(self, kind: str, now_ms: int) -> Iterator[Due]:
        yield from sorted(due for due in self.rows if due.kind == kind and due.at_ms <= now_ms)


@dataclass
class FakeExecutions(Executions):
    """Executions, claims and ledger in dictionaries, each method atomic."""

    due: FakeDueTimes = field(default_factory=FakeDueTimes)
    items: dict[str, Execution] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    rows: list[LedgerRow] = field(default_factory=list)
    owed: set[str] = field(default_factory=set)  # claims of payments that were given up and came
    lock: threading.RLock = field(default_factory=threading.RLock)
    largest: int = 0  # bytes of the largest record so far

    def read(self, contract_id: str) -> Execution | None:
        return self.items.get(contract_id)

    def is_claimed(self, claim_key: str) -> bool:
        return claim_key in self.claims

    def claim(self, before: Execution | None, after: Execution) -> None:
        with self.lock:
            self._check(before, after)
            if after.payment.claim_key in self.claims:
                raise NonceTaken
            if before and before.payment.claim_status == "active":
                self.claims[before.payment.claim_key] = "released"
                self.due.put(before.released_due)
            self.claims[after.payment.claim_key] = "active"
            self._put(before, after)

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        with self.lock:
            self._check(before, after)
            if before.payment.claim_status != after.payment.claim_status:
                self.claims[after.payment.claim_key] = after.payment.claim_status
                if after.payment.claim_status == "released":
                    self.due.put(after.released_due)
            self.rows.extend(ledger)
            if webhook_at_ms:
                self.due.put(Due(webhook_at_ms, WEBHOOK_DUE, after.contract_id))
            self._put(before, after)

    def take_over(self, before: Execution, after: Execution, now_ms: int) -> None:
        with self.lock:
            if (standing := self.items.get(after.contract_id)) and standing.lease.until_ms > now_ms:
                raise Moved
            self.move(before, after)

    def renew(self, contract_id: str, lease: str, until_ms: int) -> None:
        with self.lock:
            standing = self.items.get(contract_id)
            if standing is None or standing.lease.token != lease:
                raise LeaseLost("another runner has taken this task over")
            self.items[contract_id] = replace(standing, lease=Lease(lease, until_ms))

    def add_item(self, contract_id: str, lease: str, item: Item) -> None:
        with self.lock:
            standing = self.items.get(contract_id)
            if standing is None or standing.lease.token != lease:
                raise LeaseLost("another runner has taken this task over")
            after = replace(standing, attempt=replace(standing.attempt, items=(*standing.attempt.items, item)))
            self._weigh(after)
            self.items[contract_id] = after

    def add_debt(self, row: LedgerRow, claim_key: str) -> None:
        with self.lock:
            if claim_key not in self.owed and row not in self.rows:
                self.owed.add(claim_key)
                self.rows.append(row)

    def ledger(self, month: str) -> list[LedgerRow]:
        return [row for row in self.rows if datetime.fromtimestamp(row.at_ms // 1000, UTC).strftime("%Y-%m") == month]

    def _check(self, before: Execution | None, after: Execution) -> None:
        self._weigh(after)
        standing = self.items.get(after.contract_id)
        seen = before and (before.state, before.version)
        if (standing and (standing.state, standing.version)) != seen:
            raise Moved

    def _weigh(self, execution: Execution) -> None:
        """Refuse a record that no item holds, or that cannot be written, as DynamoDB does."""
        self.largest = max(self.largest, check_size(canonical(flat(execution))))

    def _put(self, before: Execution | None, after: Execution) -> None:
        if before and before.due:
            self.due.remove(before.due)
        for gone in filter(None, [before.doubt if before else None]):
            self.due.remove(gone)
        for stands in filter(None, [after.due, after.doubt]):
            self.due.put(stands)
        self.items[after.contract_id] = after
