"""Looking for a settlement's transaction before anything is released (worker specification 2.8, as amended).

A facilitator's `success` names a transaction. Where a node is configured its receipt is looked for, several times in at
most two seconds of the settlement's own budget: a node may lag by a block or two. What is not seen by then is not
doubted and not repeated; the settlement is unknown until a later look finds the transaction.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

from piecework.values import dataclass
from piecework.worker.chain.rpc import Chain, ChainUnavailable, Receipt
from piecework.worker.payment.evidence import Unsettled, pays
from piecework.worker.payment.settlement import Paid, Unknown

LOOK_SECONDS: Final = 2.0  # in all
GAP_SECONDS: Final = (0.2, 0.4, 0.8)  # between looks
NOT_SEEN: Final = "success, and the transaction is not seen on the chain yet"


@dataclass(frozen=True)
class Confirming:
    """Looks for transactions; the clock and the pause are arguments for tests."""

    now: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep

    def look(self, paid: Paid, record: Unsettled, chain: Chain | None, seconds: float) -> Paid | Unknown:
        """The outcome that may be acted upon: paid where the chain shows it, or where no node can be asked."""
        if chain is None:
            return paid
        receipt = self.receipt_of(paid.transaction, chain, seconds)
        if receipt is None:
            return Unknown(NOT_SEEN, paid.transaction)
        if pays(receipt, record):
            return paid
        return Unknown("success, and the transaction did not pay us", paid.transaction, alarm="success_without_payment")

    def receipt_of(self, transaction: str, chain: Chain, seconds: float) -> Receipt | None:
        """The transaction's receipt, looked for in so many seconds and two at most; None while it is not seen."""
        ends = self.now() + min(seconds, LOOK_SECONDS)
        for gap in (*GAP_SECONDS, None):
            left = ends - self.now()
            if left <= 0:
                return None
            try:
                if receipt := chain.receipt(transaction, left):
                    return receipt
            except ChainUnavailable:
                pass  # it may answer in a moment; if it does not, a later look asks again
            if gap is not None:
                self.pause(max(0.0, min(gap, ends - self.now())))
        return None
