"""What another process has used, as Linux tells: processor time and memory."""

import time
from pathlib import Path
from typing import Final

SCHEDULED: Final = 2  # the kind of clock that counts a process's time on processors, in all its threads


def cpu_ms(pid: int) -> float:
    """Milliseconds of processor time since the process began."""
    return time.clock_gettime((~pid << 3) | SCHEDULED) * 1000


def resident_mb(pid: int) -> float:
    """Memory that the process holds now.

    Raises:
        ProcessLookupError: it has ended.
    """
    try:
        told = Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    for line in told.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
