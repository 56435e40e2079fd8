"""The present time in whole milliseconds since 1970, the unit of all times here."""

import time
from typing import Final

DAY_MS: Final = 86_400_000


def now_in_ms() -> int:
    """The wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000
