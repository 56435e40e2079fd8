"""Operators who decide one payment at once, over the worker's own tables: one decides, the others are told who did."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from piecework.clock import DAY_MS, now_in_ms
from piecework.edge.roles import Caller, Role
from piecework.errors import Conflict
from piecework.ops.money.payments import PaymentVerbs
from piecework.ops.records import Records
from piecework.ops.store.worker_rows import WorkerRowsTable
from piecework.worker.chain.rpc import RpcChain
from piecework.worker.payment.charging import Charging
from piecework.worker.payment.counts import UNCOUNTED
from piecework.worker.payment.doubts import Doubts
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import ExecutionsTable
from tests.support.ops.verbs import FakeRecordRows
from tests.support.quiet import QuietLog
from tests.support.worker.doubtful import doubtful
from tests.support.worker.stage import stub_facilitator

NAMES = ("Contracts", "Work", "Due")


class Place:
    """A payment in doubt, and verbs for as many operators as come."""

    def __init__(self, aws, stub):
        self.client, self.stub = aws.client("dynamodb"), stub
        self.tables = tuple(aws.new_table(f"{name}Table") for name in NAMES)
        self.name = doubtful(self.client, stub, tables=self.tables)
        [self.transaction] = stub.ledger.transactions

    def verbs(self, before_move=lambda: None):
        contracts, work, due = self.tables

        class Executions(ExecutionsTable):
            def move(self, *given, **more):
                before_move()
                super().move(*given, **more)

        executions = Executions(self.client, work, due)
        charging = Charging(
            executions,
            HttpFacilitator(self.stub.url),
            lambda network: RpcChain(self.stub.rpc_url),
            now_in_ms,
            lambda due, delay_ms: None,
            QuietLog(),
            UNCOUNTED,
        )
        doubts = Doubts(ContractsTable(self.client, contracts), executions, charging)
        number = iter(range(99))
        return PaymentVerbs(Records(FakeRecordRows(), now_in_ms, lambda: f"{next(number):032x}"), lambda: doubts)

    def decide(self, who, verbs, decision="paid"):
        token = verbs.evidence(operator(who), self.name, {})["evidence"]
        body = {"decision": decision, "evidence": token, "reason": "seen", "override": self.name}
        body |= {"transaction": self.transaction} if decision == "paid" else {}
        return verbs.resolve(operator(who), self.name, body)

    @property
    def rows(self):
        contracts, work, _ = self.tables
        return WorkerRowsTable(self.client, work, contracts)


def operator(name):
    return Caller(name, frozenset({Role.OPERATOR}), is_limited=True)


@pytest.fixture
def place(embedded_aws):
    with stub_facilitator() as stub:
        yield Place(embedded_aws, stub)


@pytest.mark.parametrize("decision", ["paid", "not_paid"])
def test_who_is_overtaken_between_his_look_and_his_move_is_told_who_was_faster(place, decision):
    first = place.verbs()
    second = place.verbs(before_move=lambda: place.decide("ann", first, decision))

    with pytest.raises(Conflict, match=r"ann decided at .*: it moved on while you decided"):
        place.decide("bob", second)

    standing = place.rows.executions([place.name])[place.name]
    assert standing.settlement.resolution["operator"] == "ann"
    assert standing.settlement.status == ("settled" if decision == "paid" else "failed")


def test_of_many_at_once_one_decides_and_money_and_fee_are_written_once(place):
    def ask(number):
        try:
            return place.decide(f"op-{number}", place.verbs(), "paid" if number % 2 else "not_paid")["resolved"]
        except Conflict as refused:
            return refused.message

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))

    [done] = [answer for answer in answers if isinstance(answer, dict)]
    assert all(f"{done['operator']} decided" in told for told in answers if told is not done)
    is_paid, day = done["paid"] is not None, now_in_ms() // DAY_MS
    received = [move for move in place.rows.received(day, 9) if move.contract_id == place.name]
    assert len(received) == int(is_paid)
    assert len([debt for debt in place.rows.owed(day, 9) if debt.row.contract_id == place.name]) == int(is_paid)
    decided = [move for move in place.rows.moves(place.name, 99) if move.resolution]
    assert [json.dumps(move.resolution, sort_keys=True) for move in decided] == [json.dumps(done, sort_keys=True)]
    assert abs(done["at_ms"] - time.time() * 1000) < 60_000
