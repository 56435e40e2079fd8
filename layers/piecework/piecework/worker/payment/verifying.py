"""Verifying: a payment header is checked here, then by the facilitator, before anything is bound (1.2 steps 6, 7)."""

from collections.abc import Callable

from piecework.edge.http import Request
from piecework.extend.executors import Log
from piecework.values import dataclass
from piecework.worker.payment.cases import Case, Quote
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.facilitator import Facilitator, SupportedKinds
from piecework.worker.payment.payments import Payment, PaymentInvalid, check_payment, claim_key, parse_payment
from piecework.worker.record.executions import Executions, NonceTaken


@dataclass(frozen=True)
class Verifying:
    """Checks payments, and that they can be settled at all."""

    executions: Executions
    facilitator: Facilitator
    kinds: SupportedKinds
    clock: Callable[[], int]
    log: Log
    counts: SettlementCounts
    x402_v1: bool = True
    bind_payer: bool = True

    def verified(self, request: Request, quoted: Quote | Case) -> Payment:
        """The request's payment for what was quoted.

        Raises:
            PaymentInvalid: it does not pay this contract.
            NonceTaken: it is bound to another contract, or to another input of this one.
            WorkerError: it cannot be read, is another's, or the facilitator cannot be asked.
        """
        contract = quoted.contract
        payment = parse_payment(request, v1=self.x402_v1)
        if payment is None:
            raise PaymentInvalid("invalid_payload", "the payment header is empty")
        check_payment(payment, quoted.terms, contract, self.clock(), bind_payer=self.bind_payer)
        self.kinds.check(contract.network, payment.version)
        verdict = self.facilitator.verify(payment, quoted.terms)
        if verdict.payer_differs:
            self.log.warning("payer_differs", contract_id=contract.contract_id)
            self.counts.strange()
        if verdict.is_valid:
            return payment
        own = quoted.execution.payment.claim_key if isinstance(quoted, Case) else ""
        key = claim_key(payment.authorization, contract.network)
        if key != own and self.executions.is_claimed(key):  # whatever a facilitator says of a payment that was used
            raise NonceTaken
        raise PaymentInvalid(verdict.reason or "invalid_payload")
