"""What is sent again, when, and how often: the standard mode of AWS's SDKs.

A request is sent up to three times. Each repetition takes tokens from a budget that answers fill again, so that an
outage is not met with three times the load.
"""

from __future__ import annotations

from threading import Lock
from typing import Final

from piecework.aws.transport.failures import AwsFailure, NoAnswer, ServiceRefused
from piecework.chance import uniform

ATTEMPTS: Final = 3  # every write is conditional, so a repeated one is recognised
TOKENS: Final = 500
COST: Final = 5
COST_OF_SILENCE: Final = 10  # where no answer came in time
LONGEST_SECONDS: Final = 20.0
THROTTLED_SECONDS: Final = 1.0  # the longest first pause
PASSING_SECONDS: Final = 0.05
PASSING_STATUSES: Final = frozenset({500, 502, 503, 504})
PASSING: Final = frozenset({"RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete"})
THROTTLED: Final = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException"),
        *("TooManyRequestsException", "ProvisionedThroughputExceededException", "TransactionInProgressException"),
        *("RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "SlowDown"),
        *("EC2ThrottledException",),
    }
)


class Budget:
    """The repetitions that one client may still send; safe for many threads."""

    def __init__(self) -> None:
        self._left = TOKENS
        self._lock = Lock()

    def take(self, failure: AwsFailure) -> int:
        """The tokens that a repetition after this failure took, or 0 when there are not enough."""
        cost = COST_OF_SILENCE if isinstance(failure.__cause__, TimeoutError) else COST
        with self._lock:
            if cost > self._left:
                return 0
            self._left -= cost
            return cost

    def give(self, tokens: int) -> None:
        """An answer came: give back what its last repetition took, else one token."""
        with self._lock:
            self._left = min(TOKENS, self._left + (tokens or 1))


def may_pass(failure: AwsFailure) -> bool:
    """Whether the same request may be answered otherwise the next time."""
    if isinstance(failure, ServiceRefused):
        return failure.status in PASSING_STATUSES or failure.code in PASSING | THROTTLED or failure.status == 429
    return isinstance(failure, NoAnswer)


def pause_after(failure: AwsFailure, retries: int) -> float:
    """Seconds to wait before the next try: at random, up to a bound that doubles."""
    throttled = isinstance(failure, ServiceRefused) and (failure.code in THROTTLED or failure.status == 429)
    longest = (THROTTLED_SECONDS if throttled else PASSING_SECONDS) * 2**retries
    return uniform(0, min(longest, LONGEST_SECONDS))
