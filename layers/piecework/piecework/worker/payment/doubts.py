"""A payment in doubt as an operator sees it, and what an operator decides (worker specification 2.8).

    look = doubts.look(contract_id)                    # asks the chain; moves nothing
    look.token                                         # names what was shown; it stays while that is the same
    doubts.decide(look, Word(transaction, note={…}))   # the flow's own move, on that look's evidence

A decision is about one look. The move is conditional on the record of that look, so of two operators one decides, and
the other is told who was faster.
"""

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import Final, Protocol

from piecework.errors import NOTHING, Conflict, NotFound
from piecework.jsons import Json, canonical
from piecework.values import dataclass
from piecework.worker.chain.rpc import LAST_SECOND
from piecework.worker.contract.contracts import ContractRecord, time_text
from piecework.worker.payment.cases import Case
from piecework.worker.payment.charging import Charging, refused, unsettled_of
from piecework.worker.payment.evidence import Evidence
from piecework.worker.payment.settlement import Decision, NotPaid, Paid
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions, Moved
from piecework.worker.record.states import MAY_TIME_OUT, State

UNRESOLVED: Final = "unresolved"
NO_NODE: Final = "unknown: the node does not answer"
NO_BLOCK: Final = "unknown: only a node tells it"
NODE_NEEDED: Final = (
    "this payment's chain is read through a node, and none is configured:"
    " set BaseRpcUrl or BaseRpcUrlSecretArn, or BASE_RPC_URL on a local machine"
)
NOT_TAKEN: Final = ("failed", "not_charged")
PASSING: Final = frozenset({"block", "block_time", "seconds_behind"})  # what each look shows anew
THEN: Final[Mapping[State, str]] = {  # what follows, by the state that a word leads to
    State.COMPLETED: "the result is released",
    State.PARTIAL_FINAL: "what was finished of the result is released",
    State.EXECUTING: "the work begins",
    State.UNPAID: "the seeker is asked for another payment",
    State.FAILED_PERMANENT: "the task ends unpaid, and no further payment is asked for",
}
OVER_UNPAID: Final = "its time is over, so it ends unpaid, and no further payment is asked for"
OVER_PAID: Final = "its time is over, so it ends and the payment is owed back"


class Contracts(Protocol):
    """Keeps contracts."""

    def get(self, contract_id: str) -> ContractRecord | None: ...


@dataclass(frozen=True, slots=True)
class Word:
    """What an operator says: the transaction that paid, or None for not paid; `note` says who decided, and why."""

    transaction: str | None
    override: bool = False  # although the chain does not show it
    note: Mapping[str, Json] = NOTHING


@dataclass(frozen=True)
class Look:
    """A payment in doubt and what its witnesses said at one moment."""

    case: Case
    seen: Evidence | None
    decision: Decision
    at_ms: int

    @property
    def can_be_decided(self) -> bool:
        """Whether the flow has given up, so that only an operator can tell."""
        return is_unresolved(self.case.execution)

    @cached_property
    def chain(self) -> dict[str, Json]:
        """What the chain shows, and the flow's own decision on it."""
        why = getattr(self.decision, "why", None) or getattr(self.decision, "reason", None)
        would = {"decision": type(self.decision).__name__, "why": why}
        if self.seen is None:
            return {"nonce": NO_NODE, **would}
        if self.seen.block is None:
            return {"nonce": NO_BLOCK, "facilitator": _verdict(self.seen), **would}
        spent = "spent" if self.seen.nonce_spent else "unspent"
        return {
            "block": self.seen.block,
            "block_time": time_text(self.seen.seconds * 1000),
            "seconds_behind": max(0, self.at_ms // 1000 - self.seen.seconds),
            "stale": self.seen.why_stale(unsettled_of(self.case), self.at_ms),
            "nonce": "cancelled" if self.seen.cancelled else spent,
            "paid_by": self.seen.paid,
            "failed": sorted(self.seen.reverted),
            **would,
        }

    @property
    def answers(self) -> dict[str, Json]:
        """For each word that an operator can say: whether the chain shows it, and what follows from it."""
        execution = self.case.execution
        paid = execution.paid({}, self.at_ms)
        unpaid = refused(execution, NotPaid("", {}), self.at_ms)
        is_paid, is_unpaid = isinstance(self.decision, Paid), isinstance(self.decision, NotPaid)
        return {"paid": self._answer(paid, is_shown=is_paid), "not_paid": self._answer(unpaid, is_shown=is_unpaid)}

    def _answer(self, after: Execution, *, is_shown: bool) -> dict[str, Json]:
        then = THEN[after.state]
        if after.state in MAY_TIME_OUT and self.at_ms >= after.ends_at_ms:
            then = OVER_PAID if after.is_paid else OVER_UNPAID
        return {"is_shown": is_shown, "leads_to": str(after.state), "then": then}

    @property
    def token(self) -> str:
        """A digest of the record and of what the chain shows, but for the block that it was read at."""
        execution = self.case.execution
        standing = {name: value for name, value in self.chain.items() if name not in PASSING}
        named = [execution.contract_id, execution.version, execution.payment.claim_key, standing]
        return sha256(canonical(named)).hexdigest()


@dataclass(frozen=True)
class Doubts:
    """Looks at payments in doubt, and moves them on as an operator says."""

    contracts: Contracts
    executions: Executions
    charging: Charging

    def look(self, contract_id: str) -> Look:
        """What the witnesses say of a payment now.

        Raises:
            NotFound: the contract has no task, or is not kept.
            Conflict: the payment is not in doubt.
        """
        return self.look_at(self.case(contract_id))

    def look_at(self, case: Case) -> Look:
        """The same for a case that was read. Raises Conflict."""
        if case.execution.state is not State.UNKNOWN:
            raise Conflict(f"{_standing(case.execution)}; nothing about it is in doubt")
        now_ms = self.charging.clock()
        return Look(case, *self.charging.witness(case, now_ms), now_ms)

    def case(self, contract_id: str) -> Case:
        """A contract and its task; what settles or reads a payment needs no executor.

        Raises:
            NotFound: the contract has no task, or is not kept.
        """
        execution, contract = self.executions.read(contract_id), self.contracts.get(contract_id)
        if execution is None or contract is None:
            raise NotFound(f"the worker does not have a task of {contract_id}")
        return Case(contract, execution, None, PaymentTerms.of(contract, None, ""))

    def decide(self, look: Look, word: Word) -> Case:
        """Move the payment of this look on to paid or not paid, upon what the look shows.

        Raises:
            Conflict: the payment is not unresolved, or it moved on since the look.
            NotProven: the chain does not show it, and the word does not override the chain.
        """
        check_unresolved(look.case.execution)
        try:
            return self.charging.resolve(
                look.case, word.transaction, look.decision, override=word.override, note=word.note
            )
        except Moved:
            standing = self.case(look.case.execution.contract_id).execution
            raise Conflict(f"{_standing(standing)}: it moved on while you decided; look at it again") from None


def is_unresolved(execution: Execution) -> bool:
    """Whether only an operator can tell what became of a payment."""
    return (execution.state, execution.settlement.status) == (State.UNKNOWN, UNRESOLVED)


def check_unresolved(execution: Execution) -> None:
    """Raises Conflict, with who decided, unless only an operator can tell what became of the payment."""
    if not is_unresolved(execution):
        raise Conflict(f"{_standing(execution)}, and only an {UNRESOLVED} one can be resolved")


def facts_of(case: Case) -> dict[str, Json]:
    """The facts with which an operator finds a payment on its chain; never the payment itself, which can be spent."""
    execution, contract, settlement = case.execution, case.contract, case.execution.settlement
    return {
        "state": str(execution.state),
        "payment": settlement.status,
        "created_at": time_text(execution.created_at_ms),
        "price": f"{contract.price} USDC on {contract.network.name}",
        "atomic": contract.atomic,
        "payer": execution.payment.payer,
        "pay_to": contract.worker_wallet,
        "nonce": execution.payment.claim_key.rpartition("/")[2],
        "valid_before": time_text(min(execution.payment.valid_before, LAST_SECOND) * 1000),  # it may be 2^256 - 1
        "claim": execution.payment.claim_status,
        "settle_calls": settlement.calls,
        "refused_payments": settlement.refusals,
        "transactions_named": list(settlement.hashes),
        "receipt": dict(settlement.receipt) if settlement.receipt else None,
        "resolved": dict(settlement.resolution) if settlement.resolution else None,
    }


def _standing(execution: Execution) -> str:
    """How a payment stands, and who decided it if an operator did. The record keeps words on earlier payments, too."""
    said = f"the payment is {execution.settlement.status}"
    word = execution.settlement.resolution
    stands = execution.is_paid if word and word.get("paid") else execution.settlement.status in NOT_TAKEN
    if not (word and stands):
        return said
    what = f"paid by {word.get('paid')}" if word.get("paid") else "not paid"
    at = time_text(int(word.get("at_ms") or 0))
    return f"{said}; {word.get('operator') or 'an operator'} decided at {at}: {what}"


def _verdict(seen: Evidence) -> str | None:
    if seen.verdict is None:
        return None
    return "valid" if seen.verdict.is_valid else seen.verdict.reason
