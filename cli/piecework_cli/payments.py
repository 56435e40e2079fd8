"""`piecework payment`: the payments of a worker's tasks, and an operator's decision on an unresolved one.

A payment is unresolved when its authorization has ended and the worker still cannot tell whether it was taken. Its
result is then withheld, and the worker does not charge again. `resolve` makes the same moves as the flow and needs the
same evidence. To decide against the chain, type the contract's id once more; the record then says `override`.
"""

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from piecework.clock import now_in_ms
from piecework.jsons import Json
from piecework.worker.backends import chain_of
from piecework.worker.contract.contracts import time_text
from piecework.worker.payment.cases import Case
from piecework.worker.payment.charging import Charging, NotProven
from piecework.worker.payment.counts import UNCOUNTED
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.record.values import PaymentStatus
from piecework_cli.executions import all_executions, execution_of, executions_of
from piecework_cli.output import CommandError, show
from piecework_cli.target import Target

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

TRANSACTION: Final = re.compile(r"0x[0-9a-fA-F]{64}")
UNRESOLVED: Final = "unresolved"


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "payment", help="list, show and resolve payments, as the worker's operator"
    ).add_subparsers(required=True, metavar="ACTION")
    listing = group.add_parser("list", help="list every stored payment, the oldest first; reads the whole table")
    listing.add_argument("--status", choices=get_args(PaymentStatus), help="only payments in this status")
    listing.set_defaults(run=list_payments)
    showing = group.add_parser("show", help="print what the worker knows of a contract's payment")
    showing.add_argument("contract", help="the contract's id")
    showing.set_defaults(run=show_payment)
    resolving = group.add_parser("resolve", help="decide an unresolved payment")
    resolving.add_argument("contract", help="the contract's id")
    word = resolving.add_mutually_exclusive_group(required=True)
    word.add_argument("--paid", metavar="TRANSACTION", help="this transaction paid: release the result")
    word.add_argument(
        "--not-paid", action="store_true", help="the payment was not taken: let the seeker sign a new one"
    )
    resolving.add_argument(
        "--override",
        metavar="CONTRACT",
        help="the contract's id once more, to decide although the chain does not show it",
    )
    resolving.set_defaults(run=resolve)


def list_payments(options: argparse.Namespace) -> None:
    """Print one short entry for each payment."""
    found = (one for one in all_executions(Target.of(options)) if options.status in (None, one.settlement.status))
    show([_in_short(one) for one in sorted(found, key=lambda one: (one.created_at_ms, one.contract_id))])


def show_payment(options: argparse.Namespace) -> None:
    """Print the facts of one payment; never the payment itself, which can be spent until it ends."""
    target = Target.of(options)
    case = _case(target, options.contract)
    unknown = case.execution.state is State.UNKNOWN
    chain = {"chain": chain_facts(_charging(target), case)} if unknown else {}
    show({**facts_of(case), **chain})


def resolve(options: argparse.Namespace) -> None:
    """Move an unresolved settlement on to paid or not paid.

    Raises:
        CommandError: the payment is not unresolved, or the chain does not show the decision.
        Moved: somebody else resolved it meanwhile.
    """
    if options.paid is not None and not TRANSACTION.fullmatch(options.paid):
        raise CommandError("--paid needs a transaction's hash: 0x and 64 hex digits")
    target = Target.of(options)
    case = _case(target, options.contract)
    execution = case.execution
    if (execution.state, execution.settlement.status) != (State.UNKNOWN, UNRESOLVED):
        raise CommandError(
            f"the payment is {execution.settlement.status}, and only an {UNRESOLVED} one can be resolved"
        )
    if options.override not in (None, execution.contract_id):
        raise CommandError(f"--override must be {execution.contract_id}, the id of the contract that you decide on")
    charging = _charging(target)
    chain = chain_facts(charging, case)
    try:
        after = charging.resolve(case, options.paid, override=options.override is not None)
    except NotProven as refusal:
        show({**facts_of(case), "chain": chain})
        raise CommandError(
            f"{refusal.message}; type --override {execution.contract_id} to decide nevertheless"
        ) from None
    show({**facts_of(after), "chain": chain})


def chain_facts(charging: Charging, case: Case) -> dict[str, Json]:
    """What the chain shows of an unknown settlement, and the flow's own decision on it."""
    seen, decision = charging.witness(case, charging.clock())
    would = {
        "decision": type(decision).__name__,
        "why": getattr(decision, "why", None) or getattr(decision, "reason", None),
    }
    if seen is None or seen.block is None:
        return {"nonce": "unknown: the node does not answer", **would}
    spent = "spent" if seen.nonce_spent else "unspent"
    return {
        "block": seen.block,
        "block_time": time_text(seen.seconds * 1000),
        "nonce": "cancelled" if seen.cancelled else spent,
        "paid_by": seen.paid,
        "failed": sorted(seen.reverted),
        **would,
    }


def facts_of(case: Case) -> dict[str, Json]:
    """The facts with which an operator finds a payment on its chain."""
    execution, contract = case.execution, case.contract
    return {
        **_in_short(execution),
        "price": f"{contract.price} USDC on {contract.network.name}",
        "atomic": contract.atomic,
        "payer": execution.payment.payer,
        "pay_to": contract.worker_wallet,
        "nonce": execution.payment.claim_key.rpartition("/")[2],
        "valid_before": time_text(execution.payment.valid_before * 1000),
        "claim": execution.payment.claim_status,
        "settle_calls": execution.settlement.calls,
        "refused_payments": execution.settlement.refusals,
        "transactions_named": list(execution.settlement.hashes),
        "receipt": dict(execution.settlement.receipt) if execution.settlement.receipt else None,
        "resolved": dict(execution.settlement.resolution) if execution.settlement.resolution else None,
    }


def _in_short(execution: Execution) -> dict[str, Json]:
    return {
        "contract_id": execution.contract_id,
        "task_id": execution.task_id,
        "state": str(execution.state),
        "payment": execution.settlement.status,
        "created_at": time_text(execution.created_at_ms),
    }


def _case(target: Target, contract_id: str) -> Case:
    """A contract and its task; what settles or reads a payment needs no executor."""
    from piecework.worker.store.contracts_table import ContractsTable

    execution = execution_of(target, contract_id)
    found = ContractsTable(target.clients.dynamodb, target.table("PIECEWORK_CONTRACTS_TABLE")).get(contract_id)
    if found is None:
        raise CommandError(f"the worker has no contract {contract_id}")
    return Case(found, execution, None, PaymentTerms.of(found, None, ""))


def _charging(target: Target) -> Charging:
    """The flow's own charging over the worker's own node; the sweep does what follows."""
    return Charging(
        executions=executions_of(target),
        facilitator=HttpFacilitator(target.variables["FACILITATOR_URL"]),
        chain_of=chain_of(target.settings),
        clock=now_in_ms,
        nudge=lambda due, delay_ms: None,
        log=_NullLog(),
        counts=UNCOUNTED,
    )


@dataclass(frozen=True)
class _NullLog:
    """A log that drops its lines: a command prints its result and does not write the worker's log."""

    def info(self, event: str, /, **fields: Any) -> None: ...

    def warning(self, event: str, /, **fields: Any) -> None: ...
