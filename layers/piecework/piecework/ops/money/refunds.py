"""Refunds at the operator's door: what the chain says of a transfer back, and an operator's word that it was paid.

    | crash after                 | what stands                                                                    |
    |-----------------------------|--------------------------------------------------------------------------------|
    | the record was written      | the debt as it was, and a record without an outcome: look, and say it again    |
    | the debt was paid back      | the refund with who and why, and a record without an outcome                   |

Nobody says it of something else than he saw: the word names the evidence that was shown.
"""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.edge.roles import Caller
from piecework.edge.tokens import ANONYMOUS
from piecework.errors import BadRequest, Conflict
from piecework.jsons import Json
from piecework.ops.access import WRITES, require
from piecework.ops.money.asking import Asking
from piecework.ops.money.payments import evidence_in, override_in
from piecework.ops.records import Records, reason_in
from piecework.ops.verbs import contract_of, only
from piecework.worker.payment.refunding import Refunding, RefundLook, Said
from piecework.worker.payment.settlement import TRANSACTION
from piecework.worker.record.debts import NAME

CHANGED: Final = "the evidence is not what was shown to you any more: look at it again"


class RefundVerbs:
    """What an operator sees of a refund, and may say about it."""

    def __init__(self, records: Records, refunding: Callable[[], Refunding]) -> None:
        self._records, self._refunding, self._asking = records, refunding, Asking()

    def evidence(self, caller: Caller, contract_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """What the chain says now of a transaction that is said to pay a debt back, and its name; not recorded.

        Raises:
            Forbidden: the caller may not write: a look calls a node that somebody pays for.
            BadRequest: a member is missing or has no meaning.
            NotFound: the contract does not have this debt.
            Conflict: it was paid back, the transaction counts for another debt, or no node is configured.
            TooOften: looks are limited.
        """
        require(caller, WRITES)
        only(body, "debt", "transaction")
        look = self._look(contract_of(contract_id), _debt(body), _transaction(body))
        row, (verdict, _) = look.debt.row, look.verdict
        return {
            "contract_id": row.contract_id,
            "debt": look.debt.key.name,
            "owed_since_ms": row.at_ms,
            "atomic": str(row.atomic),
            "network": row.network,
            "wallet": row.wallet,
            "paid_by": row.transaction,
            "transaction": look.transaction,
            "chain": look.chain,
            "is_shown": verdict == "shown",
            "can_be_overridden": verdict == "unknown",
            "evidence": look.token,
        }

    def refunded(self, caller: Caller, contract_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Say that a debt was paid back, upon the evidence that was shown.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: a member is missing or has no meaning; nothing was recorded.
            NotFound: the contract does not have this debt.
            Conflict: it was paid back, the transaction counts for another debt, the evidence is another one by now, the
                chain says otherwise or nothing, or no node is configured.
            TooOften: looks are limited.
        """
        require(caller, WRITES)
        only(body, "debt", "transaction", "evidence", "override", "reason")
        named, reason = contract_of(contract_id), reason_in(body)
        debt, transaction, token = _debt(body), _transaction(body), evidence_in(body)
        said = Said(caller.name or ANONYMOUS, reason, override_in(body, named))

        def act() -> dict[str, Json]:
            look = self._look(named, debt, transaction)
            if look.token != token:
                raise Conflict(CHANGED)
            refund = self._refunding().decide(look, said)
            return {"contract_id": named, "debt": debt, "atomic": str(refund.atomic), "refund": refund.word}

        return self._records.done(caller, "payment.refunded", f"{named}/{debt}", body, act)

    def _look(self, contract_id: str, name: str, transaction: str) -> RefundLook:
        refunding = self._refunding()
        debt = refunding.owed(contract_id, name, transaction)
        self._asking.count(contract_id)
        return refunding.look_at(debt, transaction)


def _debt(body: Mapping[str, Json]) -> str:
    name = body.get("debt")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadRequest("debt must be the `debt` of what is owed, as the task and the ledger show it")
    return name


def _transaction(body: Mapping[str, Json]) -> str:
    transaction = body.get("transaction")
    if not isinstance(transaction, str) or not TRANSACTION.fullmatch(transaction):
        raise BadRequest("transaction must be the hash of the transfer back: 0x and 64 hex digits")
    return transaction.lower()
