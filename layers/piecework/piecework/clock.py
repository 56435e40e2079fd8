"""The present time, as everything here counts it: whole milliseconds since 1970."""

import time


def now_in_ms() -> int:
    """The wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000
