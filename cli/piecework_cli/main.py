"""`piecework`: read the command line and run one command; each group of commands is a module that adds itself."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from piecework.errors import PieceworkError
from piecework_cli import (
    approvals,
    contracts,
    kernel_connections,
    kernel_executions,
    keys,
    ledger,
    operations,
    payments,
    policy,
    tasks,
)
from piecework_cli.target import add_target_options

Commands = argparse._SubParsersAction
GROUPS: Final[tuple[Callable[["Commands[argparse.ArgumentParser]"], None], ...]] = (
    contracts.add,
    tasks.add,
    payments.add,
    ledger.add,
    keys.add,
    policy.add,
    kernel_executions.add,
    approvals.add,
    kernel_connections.add,
    operations.add,
)
READER_LEFT: Final = 141  # a shell's status for a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 1 for a refusal, 2 for a command line that cannot be read."""
    options = parser().parse_args(arguments)
    try:
        status = int(options.run(options) or 0)
        sys.stdout.flush()
        return status
    except PieceworkError as error:
        print(f"piecework: {error.message}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _drop_output()
        return READER_LEFT
    except KeyboardInterrupt:
        return 130


def _drop_output() -> None:
    """Send the interpreter's last flush of stdout to nowhere, because its reader (such as `head`) has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    made = argparse.ArgumentParser(
        prog="piecework",
        description="A HIRE worker's contracts, tasks and payments, and a kernel door's executions; here or deployed.",
    )
    add_target_options(made)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for add in GROUPS:
        add(commands)
    return made


if __name__ == "__main__":
    sys.exit(main())
