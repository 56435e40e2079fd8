"""Who owes whom after a settlement: a platform's share of what was delivered, or the price of what was not.

A row is written with the end that makes it true, in the same transaction. Work that is paid before it is done owes the
platform's share when it is delivered, and the price when it fails; never both.
"""

from decimal import Decimal

from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.payment.cases import Case
from piecework.worker.record.debts import transaction_of
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import LedgerKind, LedgerRow


def fee_rows(case: Case, now_ms: int, transaction: str) -> list[LedgerRow]:
    """What the operator owes the platform for a contract that was paid and delivered: a share, rounded down."""
    contract = case.contract
    fee = contract.document["terms"]["platform_fee"]
    atomic = int(contract.atomic * Decimal(str(fee["percentage"])) // 100)
    if atomic == 0:
        return []
    return [ledger_row("platform_fee_due", case.execution, contract, atomic, fee["wallet"], now_ms, transaction)]


def late_fee_rows(case: Case, now_ms: int) -> list[LedgerRow]:
    """The same for work that was paid before it was done, once it is delivered."""
    settlement = case.execution.settlement
    return fee_rows(case, now_ms, transaction_of(settlement.receipt)) if settlement.owes_fee else []


def refund_rows(case: Case, now_ms: int) -> list[LedgerRow]:
    """What the operator owes a seeker who paid before the work that then failed."""
    execution, contract = case.execution, case.contract
    if not execution.is_paid:
        return []
    payer, transaction = execution.payment.payer, transaction_of(execution.settlement.receipt)
    return [ledger_row("refund_due", execution, contract, contract.atomic, payer, now_ms, transaction)]


def ledger_row(
    kind: LedgerKind,
    execution: Execution,
    contract: ContractRecord,
    atomic: int,
    wallet: str,
    now_ms: int,
    transaction: str,
) -> LedgerRow:
    """A row about one execution."""
    return LedgerRow(
        kind=kind,
        contract_id=execution.contract_id,
        task_id=execution.task_id,
        generation=execution.generation,
        atomic=atomic,
        network=contract.network.caip2,
        wallet=wallet,
        at_ms=now_ms,
        transaction=transaction,
    )
