"""The composition root of the operator's door where it decides about money."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from piecework.errors import Conflict, NotFound
from piecework.jsons import Json
from piecework.ops.door import Asked
from piecework.ops.wiring import OpsDoor
from piecework.settings import needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from piecework.ops.money.payments import PaymentVerbs
    from piecework.ops.money.refunds import RefundVerbs
    from piecework.worker.chain.networks import Network
    from piecework.worker.chain.rpc import Chain
    from piecework.worker.payment.doubts import Doubts
    from piecework.worker.payment.refunding import Refunding
    from piecework.worker.store.executions_table import ExecutionsTable

NO_FACILITATOR: Final = (
    "a payment in doubt is looked at with the facilitator's word, and none is configured:"
    " set FacilitatorUrl, or FACILITATOR_URL on a local machine"
)


class OpsMoneyDoor(OpsDoor):
    """The door with the chain's node. A part that lacks a setting, or cannot read it, raises SettingsError.

    Without a facilitator no payment in doubt is looked at (Conflict); what is owed back needs the tables alone.
    """

    def payment_evidence(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/payment/evidence."""
        return self._payments.evidence(asked.caller, asked.named["contract_id"], asked.request.json_object())

    def resolve_payment(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/payment/resolve."""
        return self._payments.resolve(asked.caller, asked.named["contract_id"], asked.request.json_object())

    def refund_evidence(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/payment/refunded/evidence."""
        return self._refunds.evidence(asked.caller, asked.named["contract_id"], asked.request.json_object())

    def refunded(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/payment/refunded."""
        return self._refunds.refunded(asked.caller, asked.named["contract_id"], asked.request.json_object())

    @cached_property
    def _payments(self) -> PaymentVerbs:
        from piecework.ops.money.payments import PaymentVerbs

        return PaymentVerbs(self._records, lambda: self._doubts)

    @cached_property
    def _refunds(self) -> RefundVerbs:
        from piecework.ops.money.refunds import RefundVerbs

        return RefundVerbs(self._records, lambda: self._refunding)

    @cached_property
    def _doubts(self) -> Doubts:
        from piecework.clock import now_in_ms
        from piecework.worker.payment.charging import Charging
        from piecework.worker.payment.counts import SettlementCounts
        from piecework.worker.payment.doubts import Doubts
        from piecework.worker.payment.facilitator import HttpFacilitator
        from piecework.worker.store.contracts_table import ContractsTable

        executions = self._executions
        facilitator = self._env.get("FACILITATOR_URL", "")
        if not facilitator:
            raise Conflict(NO_FACILITATOR)
        (contracts,) = needed(self._env, "PIECEWORK_CONTRACTS_TABLE")
        charging = Charging(
            executions=executions,
            facilitator=HttpFacilitator(facilitator, warn=self.telemetry.warning),
            chain_of=self._chain_of,
            clock=now_in_ms,
            nudge=lambda due, delay_ms: None,  # the sweep finds what follows
            log=self.telemetry,
            counts=SettlementCounts(self.telemetry.count),
        )
        return Doubts(ContractsTable(self._clients.dynamodb, contracts), executions, charging)

    @cached_property
    def _refunding(self) -> Refunding:
        from piecework.clock import now_in_ms
        from piecework.worker.payment.refunding import Refunding
        from piecework.worker.store.debts_table import DebtsTable

        executions = self._executions
        (work,) = needed(self._env, "PIECEWORK_WORK_TABLE")
        debts = DebtsTable(self._clients.dynamodb, work)
        return Refunding(debts, executions, self._chain_of, now_in_ms, self.telemetry)

    @cached_property
    def _executions(self) -> ExecutionsTable:
        from piecework.worker.store.executions_table import ExecutionsTable

        names = ("PIECEWORK_WORK_TABLE", "PIECEWORK_DUE_TABLE", "PIECEWORK_CONTRACTS_TABLE")
        work, due, contracts = (self._env.get(name, "") for name in names)
        if not (work and due and contracts):
            raise NotFound("this stack has no worker door")
        return ExecutionsTable(self._clients.dynamodb, work, due)

    @cached_property
    def _chain_of(self) -> Callable[[Network], Chain | None]:
        from piecework.ops.money.payments import bounded
        from piecework.worker.backends import node_of

        url, arn = (self._env.get(name, "") for name in ("BASE_RPC_URL", "BASE_RPC_URL_SECRET_ARN"))
        return bounded(node_of(url, arn, self.telemetry.warning))
