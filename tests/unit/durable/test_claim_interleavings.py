"""Two and three identical paid requests, stepped through every order of their calls at the claim."""

import threading
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from piecework.worker.record.states import State
from tests.support.worker.door_fakes import FakeExecutions
from tests.support.worker.stage import BODY, Stage, stub_facilitator

WAIT_SECONDS = 10


class Turns:
    """Lets actors make their calls in a given order; once the order is used up, or an actor has ended, all go on."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self.order, self.changed = list(order), threading.Condition()
        self.who: dict[int, int] = {}

    def take(self) -> None:
        me = self.who[threading.get_ident()]
        with self.changed:
            mine = self.changed.wait_for(
                lambda: not self.order or me not in self.order or self.order[0] == me, WAIT_SECONDS
            )
            assert mine, "the order cannot be kept"

    def done(self) -> None:
        me = self.who[threading.get_ident()]
        with self.changed:
            if self.order and self.order[0] == me:
                self.order.pop(0)
            self.changed.notify_all()

    def leave(self) -> None:
        me = self.who[threading.get_ident()]
        with self.changed:
            self.order = [one for one in self.order if one != me]
            self.changed.notify_all()


class Stepped:
    """Executions whose calls are made in turns."""

    def __init__(self, real: FakeExecutions, turns: Turns) -> None:
        self._real, self._turns = real, turns

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)

        def in_turn(*arguments: Any, **named: Any) -> Any:
            self._turns.take()
            try:
                return call(*arguments, **named)
            finally:
                self._turns.done()

        return in_turn


def orders(actors: int, calls: int) -> Iterator[tuple[int, ...]]:
    """Every order of so many calls of each actor."""
    yield from sorted(set(permutations([actor for actor in range(actors) for _ in range(calls)])))


NETWORK = "eip155:84532"  # a test net, where a facilitator's word is enough


class Free:
    """A facilitator without a network: verifies everything, settles each nonce once, and counts."""

    def __init__(self) -> None:
        self.spent: list[str] = []
        self.lock = threading.Lock()

    def supported(self):
        from piecework.worker.payment.facilitator import Kinds

        return Kinds(frozenset({(2, "exact", NETWORK)}))

    def verify(self, payment, terms):
        from piecework.worker.payment.facilitator import Verdict

        with self.lock:
            used = payment.authorization.nonce in self.spent
        return Verdict(not used, "invalid_exact_evm_nonce_already_used" if used else None)

    def settle(self, payment, terms, seconds):
        from piecework.worker.chain.exchange import Answer

        with self.lock:
            self.spent.append(payment.authorization.nonce)
        receipt = {"success": True, "transaction": "0x" + "ab" * 32, "network": NETWORK}
        return Answer(200, {**receipt, "payer": payment.authorization.from_})


@pytest.fixture(scope="module")
def prepared():
    """A contract and signed payments, made once: signing takes longer than all the rest."""
    with stub_facilitator() as stub:
        stage = Stage(stub, with_chain=False)
        contract = stage.contract()
        yield stub, contract, [stage.pay(contract) for _ in range(3)]


def assert_done_once(prepared: Any, order: tuple[int, ...], actors: int, *, same_payment: bool) -> None:
    stub, contract, payments = prepared
    turns, free = Turns(order), Free()
    real = FakeExecutions()
    stage = Stage(
        stub,
        inline=False,
        with_chain=False,
        ports={"executions": Stepped(real, turns), "due_times": real.due, "facilitator": free},
    )
    stage.contracts.put(contract)
    answers: list[Any] = []

    def act(actor: int) -> None:
        turns.who[threading.get_ident()] = actor
        answers.append(stage.post(contract, BODY, payments[0 if same_payment else actor]))
        turns.leave()

    threads = [threading.Thread(target=act, args=(actor,)) for actor in range(actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_SECONDS)
    assert len(answers) == actors, order
    assert {answer.status for answer in answers} <= {200, 202}, order
    assert len({answer.body["task_id"] for answer in answers}) == 1, order
    assert len(stage.runs) == 1 and len(free.spent) == 1, order
    assert real.items[contract.contract_id].state is State.COMPLETED, order


@pytest.mark.parametrize("same_payment", [True, False])
def test_two_duplicates_in_every_order_run_and_settle_once(prepared, same_payment):
    for order in orders(2, 4):
        assert_done_once(prepared, order, 2, same_payment=same_payment)


@pytest.mark.parametrize("same_payment", [True, False])
def test_three_duplicates_in_every_order_run_and_settle_once(prepared, same_payment):
    for order in orders(3, 2):
        assert_done_once(prepared, order, 3, same_payment=same_payment)
