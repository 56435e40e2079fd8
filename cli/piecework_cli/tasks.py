"""`piecework task`: print a hired task's state, once or until the task ends."""

import argparse
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from piecework.worker.chain.exchange import Answer
from piecework_cli.executions import execution_of
from piecework_cli.output import CommandError, show
from piecework_cli.target import Target

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OK: Final = 200
DELIVERED: Final = ("completed", "partial")
PENDING: Final = "pending"
EVERY_SECONDS: Final = 2.0
WATCH_SECONDS: Final = 86_400.0  # a task lives no longer
HELP_TASK: Final = "the task's id; operators may leave it out, because the command reads it from the worker's table"


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("task", help="print and watch hired tasks").add_subparsers(
        required=True, metavar="ACTION"
    )
    showing = group.add_parser("show", help="print the task as polling returns it")
    watching = group.add_parser("watch", help="poll until the task ends; print a line for every change")
    for parser in (showing, watching):
        parser.add_argument("contract", help="the contract's id")
        parser.add_argument("task", nargs="?", help=HELP_TASK)
    watching.add_argument(
        "--every", type=float, default=EVERY_SECONDS, metavar="SECONDS", help="seconds between two polls"
    )
    watching.add_argument("--seconds", type=float, default=WATCH_SECONDS, help="give up after this many seconds")
    showing.set_defaults(run=show_task)
    watching.set_defaults(run=watch)


def show_task(options: argparse.Namespace) -> int:
    """Print the task; returns 1 when it does not exist."""
    answer = _look(Target.of(options), *_named(options))
    show(answer.document)
    return 0 if answer.status == OK else 1


def watch(options: argparse.Namespace) -> int:
    """Print a line when status or payment change, and the task at its end; returns 1 unless it was delivered."""
    target, named = Target.of(options), _named(options)
    ends, before = time.monotonic() + options.seconds, ""
    while True:
        answer = _look(target, *named)
        task: Mapping[str, Any] = answer.document or {}
        if answer.status != OK or task.get("status") != PENDING:
            show(answer.document)
            return 0 if task.get("status") in DELIVERED else 1
        now = json.dumps({"status": task["status"], "payment": task.get("payment", {}).get("status")})
        if now != before:
            print(now, flush=True)
        before = now
        if time.monotonic() + options.every > ends:
            raise CommandError("the task did not end in time")
        time.sleep(options.every)


def _named(options: argparse.Namespace) -> tuple[str, str]:
    return options.contract, options.task or execution_of(Target.of(options), options.contract).task_id


def _look(target: Target, contract: str, task: str) -> Answer:
    return target.ask("GET", f"/tasks/{task}", headers={"X-Contract-ID": contract})
