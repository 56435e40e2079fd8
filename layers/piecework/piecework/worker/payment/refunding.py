"""A payment that was owed back and was paid back: what the chain says of the transfer, and an operator's word on it.

    look = refunds.look(contract_id, debt, transaction)     # asks the chain; moves nothing
    look.token                                              # names what was shown; it stays while that is the same
    refunds.decide(look, Said(operator, reason))            # the debt is paid back, upon that look's evidence

    | what the node says of the transaction                                        | verdict   | it counts        |
    |------------------------------------------------------------------------------|-----------|------------------|
    | it moved what is owed, in USDC, to the wallet that paid, after the payment   | shown     | yes              |
    | it moved another amount to that wallet, or nothing; it failed; it is older   | otherwise | never            |
    | nothing: it does not answer, or no block that it knows holds the transaction | unknown   | by an override   |
    | it moved what is owed; where the payment stands is not known, or both stand  | unknown   | by an override   |
    |   in one block and the node does not tell their places in it                 |           |                  |

No depth is asked for, as with payments: a transaction counts as soon as a block holds it, and a block that the chain
drops afterwards is not noticed.

Real money is not looked at without a node, so that nobody says a word of it either. A test network has no node: nothing
is known there.

Amounts are never guessed: a debt is paid back as a whole, by one transaction, and a transaction pays one debt. Whose
wallet sent it is shown and not judged, since operators pay from more than one; but a wallet that pays itself pays
nothing back.
"""

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Final, Literal

from piecework.errors import Conflict, NotFound
from piecework.extend.executors import Log
from piecework.jsons import Json, canonical
from piecework.values import dataclass
from piecework.worker.chain.networks import BY_CAIP2, Network
from piecework.worker.chain.rpc import HASH, TRANSFER, Block, Chain, ChainUnavailable, Receipt, word
from piecework.worker.contract.contracts import time_text
from piecework.worker.payment.doubts import NO_BLOCK, NO_NODE, NODE_NEEDED
from piecework.worker.record.debts import Debt, Debts, Refund, owed_by
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions, Moved

NOT_THERE: Final = "unknown: no block that the node knows holds it"
FAILED: Final = "it failed and moved nothing"
OLDER: Final = "it is older than the payment that it would pay back"
NOTHING: Final = "it moved no USDC to the seeker's wallet"
WHOLE: Final = "it moved what is owed to the seeker's wallet"
AGE_NOT_KNOWN: Final = f"{WHOLE}, but whether it is older than the payment is not known"
ANOTHER: Final = (
    "it moved {moved} of {owed} atomic units of USDC to the seeker's wallet;"
    " a debt is paid back as a whole, by one transaction"
)
Verdict = Literal["shown", "otherwise", "unknown"]


@dataclass(frozen=True, slots=True)
class Said:
    """An operator's word that a debt was paid back; `override`: although nobody can tell."""

    operator: str
    reason: str
    override: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a node shows of a transaction: its receipt, the payment's, and how far the node has read."""

    latest: Block
    receipt: Receipt | None
    paid: Receipt | None


@dataclass(frozen=True)
class RefundLook:
    """A debt, a transaction that is said to have paid it back, and what the chain said at one moment."""

    debt: Debt
    execution: Execution | None  # the record that owes it, where one does
    transaction: str
    seen: Seen | None
    silence: str  # why nothing was seen
    at_ms: int

    @cached_property
    def verdict(self) -> tuple[Verdict, str]:
        """What follows from what was seen, and why."""
        receipt = self.seen.receipt if self.seen else None
        if self.seen is None or receipt is None:
            return "unknown", self.silence or NOT_THERE
        if not receipt.succeeded:
            return "otherwise", FAILED
        is_older = _is_older(receipt, self.seen.paid)
        if is_older:
            return "otherwise", OLDER
        moved = sum(atomic for _, atomic in self.transfers)
        if moved != self.debt.row.atomic:
            return "otherwise", ANOTHER.format(moved=moved, owed=self.debt.row.atomic) if moved else NOTHING
        return ("unknown", AGE_NOT_KNOWN) if is_older is None else ("shown", WHOLE)

    @cached_property
    def transfers(self) -> list[tuple[str, int]]:
        """Who sent how much USDC to the wallet that is owed, in this transaction."""
        network, receipt = network_of(self.debt), self.seen.receipt if self.seen else None
        return _transfers(receipt, network, self.debt.row.wallet) if receipt and network else []

    @cached_property
    def chain(self) -> dict[str, Json]:
        """What the chain says, for people."""
        verdict, why = self.verdict
        said: dict[str, Json] = {"verdict": verdict, "why": why}
        if self.seen is None:
            return said
        senders: list[Json] = [*dict.fromkeys(sender for sender, _ in self.transfers)]
        receipt, paid, latest = self.seen.receipt, self.seen.paid, self.seen.latest
        return said | {
            "atomic": str(sum(atomic for _, atomic in self.transfers)) if receipt else None,
            "from": senders,
            "block": receipt.block if receipt else None,
            "payments_block": paid.block if paid else None,
            "read_at": time_text(latest.seconds * 1000),
            "seconds_behind": max(0, self.at_ms // 1000 - latest.seconds),
        }

    @property
    def token(self) -> str:
        """A digest of the debt, the record that owes it, the transaction and what the chain says of it."""
        standing = {name: value for name, value in self.chain.items() if name not in ("read_at", "seconds_behind")}
        version = self.execution.version if self.execution else None
        named = [
            self.debt.row.contract_id,
            self.debt.key.name,
            self.debt.row.atomic,
            version,
            self.transaction,
            standing,
        ]
        return sha256(canonical(named)).hexdigest()


@dataclass(frozen=True)
class Refunding:
    """Looks at refunds, and writes that debts were paid back."""

    debts: Debts
    executions: Executions
    chain_of: Callable[[Network], Chain | None]
    clock: Callable[[], int]
    log: Log

    def owed(self, contract_id: str, name: str, transaction: str) -> Debt:
        """A debt that a transaction may pay back.

        Raises:
            NotFound: the contract does not have this debt.
            Conflict: it was paid back, or the transaction counts for another debt, or is the payment itself.
        """
        debt = self.debts.debt(contract_id, name)
        if debt is None:
            raise NotFound("the ledger has no such debt of this contract")
        if debt.refund:
            raise Conflict(f"this was paid back already; {_told(debt.refund)}")
        if transaction == debt.row.transaction.lower():
            raise Conflict("this is the transaction that paid; name the one that paid it back")
        counted = self.debts.counted(debt.row.network, transaction)
        if counted:
            raise Conflict(f"this transaction counts for a refund of {counted.contract_id} already; {_told(counted)}")
        return debt

    def look(self, contract_id: str, name: str, transaction: str) -> RefundLook:
        """What the chain says now. Raises NotFound, Conflict: as `owed` and `look_at`."""
        return self.look_at(self.owed(contract_id, name, transaction), transaction)

    def look_at(self, debt: Debt, transaction: str) -> RefundLook:
        """The same for a debt that was read.

        Raises:
            Conflict: it is real money, and no node is configured that could show it.
        """
        network = network_of(debt)
        chain = self.chain_of(network) if network else None
        if network and not network.is_testnet and chain is None:
            raise Conflict(NODE_NEEDED)
        execution = self.executions.read(debt.row.contract_id)
        owing = execution if execution and owed_by(execution) == debt.key else None
        seen, silence = (None, NO_BLOCK) if chain is None else _seen(chain, debt, transaction)
        return RefundLook(debt, owing, transaction, seen, silence, self.clock())

    def decide(self, look: RefundLook, said: Said) -> Refund:
        """Write that the debt of this look was paid back.

        Raises:
            Conflict: the chain says otherwise; or it says nothing, and the operator does not override that; or the debt
                or its task has changed since the look.
        """
        verdict, why = look.verdict
        if verdict == "otherwise":
            raise Conflict(f"the transaction does not pay this back: {why}")
        if verdict == "unknown" and not said.override:
            raise Conflict(f"the chain does not show the refund: {why}")
        by, debt = "evidence" if verdict == "shown" else "override", look.debt
        refund = debt.paid(look.transaction, by=by, operator=said.operator, reason=said.reason, at_ms=self.clock())
        try:
            self.debts.refund(refund, debt, look.execution)
        except Moved:
            self.owed(refund.contract_id, refund.debt, refund.transaction)  # says who was faster
            raise Conflict("the task moved on while you decided; look at it again") from None
        self.log.info("payment_refunded", contract_id=refund.contract_id, by=by, transaction=refund.transaction)
        return refund


def network_of(debt: Debt) -> Network | None:
    """The network that a debt is on; None where this code does not know it."""
    return BY_CAIP2.get(debt.row.network)


def _seen(chain: Chain, debt: Debt, transaction: str) -> tuple[Seen | None, str]:
    payment = debt.row.transaction.lower()
    try:
        latest, receipt = chain.latest(), chain.receipt(transaction)
        paid = chain.receipt(payment) if receipt and HASH.fullmatch(payment) else None
    except ChainUnavailable:
        return None, NO_NODE
    return Seen(latest, receipt, paid), ""


def _is_older(receipt: Receipt, paid: Receipt | None) -> bool | None:
    """Whether a transaction stands before the payment; None if that is not known."""
    if paid is None:
        return None
    if receipt.block != paid.block:
        return receipt.block < paid.block
    if receipt.index is None or paid.index is None or receipt.index == paid.index:
        return None
    return receipt.index < paid.index


def _transfers(receipt: Receipt, network: Network, wallet: str) -> list[tuple[str, int]]:
    """Transfers of the network's USDC to a wallet, of others than itself."""
    asset, to = network.usdc.lower(), "0x" + word(wallet)
    logs = [log for log in receipt.logs if log.address == asset and len(log.topics) == 3 and HASH.fullmatch(log.data)]
    came = [log for log in logs if (log.topics[0], log.topics[2]) == (TRANSFER, to) and log.topics[1] != to]
    return [("0x" + log.topics[1][-40:], int(log.data, 16)) for log in came]


def _told(refund: Refund) -> str:
    return f"{refund.operator or 'an operator'} said so at {time_text(refund.at_ms)}: {refund.transaction}"
