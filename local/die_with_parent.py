"""Run a program that ends when its parent process ends, even if the parent is killed.

    python -P local/die_with_parent.py exec PROGRAM ARGUMENTS…      gets SIGTERM when its parent is gone
    python -P local/die_with_parent.py module NAME ARGUMENTS…       gets SIGKILL when its parent is gone

Linux only; elsewhere the program simply runs, and its next request to the parent fails.
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def tie_to_parent(parent: int, ending: signal.Signals) -> None:
    """Have the kernel send `ending` to this process when `parent` is gone."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ending, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the call
        sys.exit(1)


def main() -> None:
    """Tie this process to its parent, then become the program."""
    parent, kind, program, *arguments = sys.argv[1:]
    if kind == "exec":
        tie_to_parent(int(parent), signal.SIGTERM)
        os.execv(program, [program, *arguments])  # noqa: S606  # the arguments are ours
    tie_to_parent(int(parent), signal.SIGKILL)
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def dying_with_parent(kind: str, *arguments: str) -> list[str]:
    """The command line that runs a program tied to this process."""
    return [sys.executable, "-P", os.path.abspath(__file__), str(os.getpid()), kind, *arguments]


if __name__ == "__main__":
    main()
