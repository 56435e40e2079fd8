"""What is counted of settlements, by the names that alarms and dashboards of operators read.

The counts have no dimensions: they are added up over all functions of a stack. A count that fails is logged, and
changes no outcome.
"""

import logging
from collections.abc import Callable
from typing import Final

from piecework.values import dataclass
from piecework.worker.chain.exchange import NotSent
from piecework.worker.payment.settlement import Decision, NotPaid, Paid, SettleAgain, Unknown, Wait

LOG: Final = logging.getLogger(__name__)
SETTLE_CALLS: Final = "SettleCalls"
SETTLED: Final = "Settled"
UNPAID: Final = "SettlementUnpaid"
UNKNOWN_LONG: Final = "SettlementUnknownLong"
UNRESOLVED: Final = "SettlementUnresolved"
STRANGE: Final = "SettlementAlarm"
LONG_LOOKS: Final = (
    5  # the watch message counts as one; this look comes 8.5 minutes after an uncertain answer, or later
)


@dataclass(frozen=True, slots=True)
class SettlementCounts:
    """Counts one of each metric that an event stands for; `count` writes it."""

    count: Callable[[tuple[str, ...]], None]

    def answered(self, outcome: Paid | NotPaid | NotSent | Unknown) -> None:
        """A call of `/settle` ended so."""
        if isinstance(outcome, Paid):
            self._count(SETTLE_CALLS, SETTLED)
        elif isinstance(outcome, NotPaid):
            self._count(SETTLE_CALLS, UNPAID)
        else:
            self._count(SETTLE_CALLS)

    def looked(self, decision: Decision, looks: int) -> None:
        """The witnesses were asked about an uncertain settlement, for the `looks`th time."""
        if isinstance(decision, NotPaid):
            self._count(UNPAID)
        elif isinstance(decision, Wait | SettleAgain) and looks >= LONG_LOOKS:
            self._count(UNKNOWN_LONG)

    def unresolved(self) -> None:
        """A settlement waits for an operator."""
        self._count(UNRESOLVED)

    def strange(self) -> None:
        """Something that a person must look at: another payer, a payment used after its release, no receipt."""
        self._count(STRANGE)

    def _count(self, *metrics: str) -> None:
        try:
            self.count(metrics)
        except Exception:  # an error of counting must not change a settlement that is over
            LOG.exception("a settlement was not counted")


UNCOUNTED: Final = SettlementCounts(lambda metrics: None)
