"""`piecework payment`: the payments of a worker's tasks, and an operator's decision on an unresolved one.

A payment is unresolved when its authorization has ended and the worker still cannot tell whether it was taken. Its
result is then withheld, and the worker does not charge again. `resolve` makes the same moves as the flow and needs the
same evidence. To decide against the chain, type the contract's id once more; the record then says `override`.
"""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from piecework.clock import now_in_ms
from piecework.jsons import Json
from piecework.worker.backends import node_of
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain
from piecework.worker.contract.contracts import time_text
from piecework.worker.ids import contract_id
from piecework.worker.payment.cases import Case
from piecework.worker.payment.charging import Charging, NotProven
from piecework.worker.payment.counts import UNCOUNTED
from piecework.worker.payment.doubts import Doubts, Word, check_unresolved, facts_of
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.payment.refunding import Refunding, Said
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.record.values import PaymentStatus
from piecework_cli.executions import WORK_TABLE, all_executions, executions_of
from piecework_cli.output import CommandError, show
from piecework_cli.target import Target

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

TRANSACTION: Final = re.compile(r"0x[0-9a-fA-F]{64}")


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
    add_word(resolving)
    resolving.add_argument("--reason", metavar="WHY", help="why you decide so; the record keeps it")
    resolving.set_defaults(run=resolve)
    refunding = group.add_parser("refunded", help="say that what was owed back was paid")
    add_refund(refunding)
    refunding.add_argument(
        "--override", metavar="CONTRACT", help="the contract's id once more, where no chain tells it"
    )
    refunding.add_argument("--reason", required=True, metavar="WHY", help="why you say so; it is kept")
    refunding.set_defaults(run=refunded)


def add_word(parser: argparse.ArgumentParser) -> None:
    """The decision on a payment in doubt: `--paid TRANSACTION` or `--not-paid`, and `--override CONTRACT`."""
    word = parser.add_mutually_exclusive_group(required=True)
    word.add_argument("--paid", metavar="TRANSACTION", help="this transaction paid: release the result")
    word.add_argument(
        "--not-paid", action="store_true", help="the payment was not taken: let the seeker sign a new one"
    )
    parser.add_argument(
        "--override",
        metavar="CONTRACT",
        help="the contract's id once more, to decide although the chain does not show it",
    )


def add_refund(parser: argparse.ArgumentParser) -> None:
    """Which debt was paid back by what: `--debt NAME`, `--transaction HASH`."""
    parser.add_argument("contract", help="the contract's id")
    parser.add_argument(
        "--debt", required=True, metavar="NAME", help="`debt`, as `ops task` and `ledger export` have it"
    )
    parser.add_argument("--transaction", required=True, metavar="HASH", help="the transaction that paid it back")


def list_payments(options: argparse.Namespace) -> None:
    """Print one short entry for each payment."""
    found = (one for one in all_executions(Target.of(options)) if options.status in (None, one.settlement.status))
    show([_in_short(one) for one in sorted(found, key=lambda one: (one.created_at_ms, one.contract_id))])


def show_payment(options: argparse.Namespace) -> None:
    """Print the facts of one payment; never the payment itself, which can be spent until it ends."""
    doubts = _doubts(Target.of(options))
    case = doubts.case(contract_id(options.contract))
    unknown = case.execution.state is State.UNKNOWN
    show({**_facts(case), **({"chain": doubts.look_at(case).chain} if unknown else {})})


def resolve(options: argparse.Namespace) -> None:
    """Move an unresolved settlement on to paid or not paid.

    Raises:
        CommandError: the chain does not show the decision, or a word has no meaning.
        Conflict: the payment is not unresolved, or somebody else decided meanwhile.
    """
    if options.paid is not None and not TRANSACTION.fullmatch(options.paid):
        raise CommandError("--paid needs a transaction's hash: 0x and 64 hex digits")
    doubts = _doubts(Target.of(options))
    case = doubts.case(contract_id(options.contract))
    named = case.execution.contract_id
    check_unresolved(case.execution)
    if options.override not in (None, named):
        raise CommandError(f"--override must be {named}, the id of the contract that you decide on")
    look = doubts.look_at(case)
    note = {"reason": options.reason} if options.reason else {}
    try:
        after = doubts.decide(look, Word(options.paid, options.override is not None, note))
    except NotProven as refusal:
        show({**_facts(case), "chain": look.chain})
        raise CommandError(f"{refusal.message}; type --override {named} to decide nevertheless") from None
    show({**_facts(after), "chain": look.chain})


def refunded(options: argparse.Namespace) -> None:
    """Write that a debt was paid back.

    Raises:
        CommandError: a word has no meaning.
        NotFound: the ledger has no such debt.
        Conflict: it was paid back, the transaction counts for another debt, the chain does not show it, or it is real
            money and no node is configured.
    """
    from piecework.worker.store.debts_table import DebtsTable

    if not TRANSACTION.fullmatch(options.transaction):
        raise CommandError("--transaction needs a transaction's hash: 0x and 64 hex digits")
    named, target = contract_id(options.contract), Target.of(options)
    if options.override not in (None, named):
        raise CommandError(f"--override must be {named}, the id of the contract that you decide on")
    debts, executions = DebtsTable(target.clients.dynamodb, target.table(WORK_TABLE)), executions_of(target)
    refunding = Refunding(debts, executions, _chain_of(target), now_in_ms, _NullLog())
    look = refunding.look(named, options.debt, options.transaction.lower())
    said = Said("", options.reason, options.override is not None)
    show({"chain": look.chain, "refund": refunding.decide(look, said).word})


def _facts(case: Case) -> dict[str, Json]:
    return {**_in_short(case.execution), **facts_of(case)}


def _in_short(execution: Execution) -> dict[str, Json]:
    return {
        "contract_id": execution.contract_id,
        "task_id": execution.task_id,
        "state": str(execution.state),
        "payment": execution.settlement.status,
        "created_at": time_text(execution.created_at_ms),
    }


def _doubts(target: Target) -> Doubts:
    """The flow's own charging over the worker's own tables and node; the sweep does what follows."""
    from piecework.worker.store.contracts_table import ContractsTable

    executions = executions_of(target)
    charging = Charging(
        executions=executions,
        facilitator=HttpFacilitator(target.variables["FACILITATOR_URL"]),
        chain_of=_chain_of(target),
        clock=now_in_ms,
        nudge=lambda due, delay_ms: None,
        log=_NullLog(),
        counts=UNCOUNTED,
    )
    contracts = ContractsTable(target.clients.dynamodb, target.table("PIECEWORK_CONTRACTS_TABLE"))
    return Doubts(contracts, executions, charging)


def _chain_of(target: Target) -> Callable[[Network], Chain | None]:
    """The worker's node; where its URL is a secret, the operator's own credentials read it when a chain is asked."""

    def found(network: Network) -> Chain | None:
        return node_of(target.node_url, "")(network)

    return found


@dataclass(frozen=True)
class _NullLog:
    """A log that drops its lines: a command prints its result and does not write the worker's log."""

    def info(self, event: str, /, **fields: Any) -> None: ...

    def warning(self, event: str, /, **fields: Any) -> None: ...
