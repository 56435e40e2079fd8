"""A payment in doubt at the operator's door: what the chain says of it now, and an operator's decision.

    | crash after                 | what stands                                                                    |
    |-----------------------------|--------------------------------------------------------------------------------|
    | the record was written      | the payment as it was, and a record without an outcome: look, and decide again |
    | the payment was moved on    | the decision with who and why, and a record without an outcome                 |

Nobody decides on something else than he saw: a decision names the evidence that was shown, and counts only while the
record is the same and the chain says the same.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from piecework.edge.roles import Caller
from piecework.edge.tokens import ANONYMOUS
from piecework.errors import BadRequest, Conflict
from piecework.jsons import Json
from piecework.ops.access import WRITES, require
from piecework.ops.money.asking import Asking
from piecework.ops.records import Records, reason_in
from piecework.ops.verbs import contract_of, only
from piecework.worker.chain.bounded import BoundedChain
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain
from piecework.worker.payment.doubts import NODE_NEEDED, Doubts, Look, Word, facts_of
from piecework.worker.payment.settlement import TRANSACTION

MOST_CALLS: Final = 60  # of the node for one look: a day of the chain is 22 pages of logs
LOOK_SECONDS: Final = 12.0  # after which no further call is made; the last one takes 5 s at most
DECISIONS: Final = ("paid", "not_paid")
TOKEN: Final = re.compile(r"[0-9a-f]{64}")


class PaymentVerbs:
    """What an operator sees of a payment in doubt, and may say about it."""

    def __init__(self, records: Records, doubts: Callable[[], Doubts]) -> None:
        self._records, self._doubts, self._asking = records, doubts, Asking()

    def evidence(self, caller: Caller, contract_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """What the chain says now, what each answer would lead to, and the name of it all; not recorded.

        Raises:
            Forbidden: the caller may not write: a look calls a node that somebody pays for.
            NotFound: the contract has no task.
            Conflict: the payment is not in doubt, or no node is configured.
            TooOften: looks are limited.
        """
        require(caller, WRITES)
        only(body)
        look = self._look(contract_of(contract_id))
        facts = facts_of(look.case)
        return {
            "contract_id": look.case.execution.contract_id,
            **facts,
            "atomic": str(facts["atomic"]),
            "chain": look.chain,
            "answers": look.answers,
            "can_be_decided": look.can_be_decided,
            "evidence": look.token,
        }

    def resolve(self, caller: Caller, contract_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Decide an unresolved payment, upon the evidence that was shown.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: a member is missing or has no meaning; nothing was recorded.
            NotFound: the contract has no task.
            Conflict: it is not unresolved, somebody else was faster, the evidence is another one by now, the chain does
                not show the decision, or no node is configured.
            TooOften: looks are limited.
        """
        require(caller, WRITES)
        only(body, "decision", "transaction", "evidence", "override", "reason")
        named, reason = contract_of(contract_id), reason_in(body)
        transaction, token = _transaction(body), evidence_in(body)
        override = override_in(body, named)
        note: dict[str, Json] = {"operator": caller.name or ANONYMOUS, "reason": reason}

        def act() -> dict[str, Json]:
            look = self._look(named)
            if look.token != token:
                raise Conflict("the evidence is not what was shown to you any more: look at it again")
            after = self._doubts().decide(look, Word(transaction, override, note)).execution
            settlement = after.settlement
            resolved: dict[str, Json] = dict(settlement.resolution or {})
            return {"state": str(after.state), "payment": settlement.status, "resolved": resolved}

        return self._records.done(caller, "payment.resolve", named, body, act)

    def _look(self, contract_id: str) -> Look:
        doubts = self._doubts()
        case = doubts.case(contract_id)
        network = case.contract.network
        if not network.is_testnet and doubts.charging.chain_of(network) is None:
            raise Conflict(NODE_NEEDED)
        self._asking.count(contract_id)
        return doubts.look_at(case)


def bounded(chain_of: Callable[[Network], Chain | None]) -> Callable[[Network], Chain | None]:
    """The same nodes, each asked within the bounds of one look."""

    def found(network: Network) -> Chain | None:
        chain = chain_of(network)
        return BoundedChain(chain, MOST_CALLS, LOOK_SECONDS) if chain else None

    return found


def _transaction(body: Mapping[str, Json]) -> str | None:
    """The transaction that paid, or None for not paid. Raises BadRequest."""
    decision, transaction = body.get("decision"), body.get("transaction")
    if decision not in DECISIONS:
        raise BadRequest(f"decision must be {' or '.join(DECISIONS)}")
    if decision == "not_paid":
        if transaction is not None:
            raise BadRequest("transaction is sent only with the decision paid")
        return None
    if not isinstance(transaction, str) or not TRANSACTION.fullmatch(transaction):
        raise BadRequest("with the decision paid, transaction must be a hash: 0x and 64 hex digits")
    return transaction


def evidence_in(body: Mapping[str, Json]) -> str:
    """The name of the evidence that was shown. Raises BadRequest."""
    token = body.get("evidence")
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise BadRequest("evidence must be the `evidence` of what was shown: 64 hex digits")
    return token


def override_in(body: Mapping[str, Json], contract_id: str) -> bool:
    """Whether the contract was named once more, to decide although the chain does not show it. Raises BadRequest."""
    if body.get("override") not in (None, contract_id):
        raise BadRequest("override must be the contract's id once more")
    return body.get("override") is not None
