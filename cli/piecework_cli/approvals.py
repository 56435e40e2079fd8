"""`piecework approvals`: tool calls that wait for a person, and that person's answer."""

import argparse
from typing import TYPE_CHECKING, Any

from piecework_cli.kernel import KernelClient, add_kernel_options, at, query
from piecework_cli.output import CommandError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    parser = commands.add_parser(
        "approvals", help="list and answer tool calls of the kernel door that wait for a person"
    )
    add_kernel_options(parser)
    group = parser.add_subparsers(required=True, metavar="ACTION")
    listing = group.add_parser("ls", help="list the waiting calls, one per line")
    listing.add_argument("--limit", type=int, default=50, help="list at most this many")
    listing.set_defaults(run=list_approvals)
    for name, approved, told in (("grant", True, "allow the call"), ("deny", False, "deny the call for good")):
        answering = group.add_parser(name, help=told)
        answering.add_argument("execution", help="the execution's id")
        answering.add_argument("--step", help="the step's id; without it the command finds the waiting step")
        answering.add_argument("--reason", help="why the call is denied; the agent reads it")
        answering.set_defaults(run=answer, approved=approved)


def list_approvals(options: argparse.Namespace) -> None:
    """Print one line for each waiting call."""
    for found in KernelClient.of(options).ask("GET", f"/v0/approvals{query({'limit': options.limit})}")["approvals"]:
        print(f"{found['execution_id']}  {found['agent_id']}  {found['tool_id']}  since {found['since']}")


def answer(options: argparse.Namespace) -> None:
    """Grant or deny the call that an execution waits for."""
    kernel = KernelClient.of(options)
    step_id = options.step or _waiting_step(kernel, options.execution)
    payload: dict[str, Any] = {"step_id": step_id, "approved": options.approved}
    if options.reason:
        payload["reason"] = options.reason
    body = {"signal_type": "step.approve", "payload": payload}
    done = kernel.ask("POST", at(options.execution, "signal"), body)
    print(f"step {step_id} {'granted' if options.approved else 'denied'}{' already' if done.get('already') else ''}")


def _waiting_step(kernel: KernelClient, execution_id: str) -> str:
    """The step that blocks an execution, read from its log."""
    if kernel.ask("GET", at(execution_id))["status"] != "blocked":
        raise CommandError(f"{execution_id} does not wait for a person")
    after, waiting = 0, ""
    while page := kernel.ask("GET", at(execution_id, f"events{query({'after_sequence': after, 'limit': 1000})}"))[
        "events"
    ]:
        blocks = [event["payload"] for event in page if event["type"] == "execution.blocked"]
        if blocks:
            waiting = blocks[-1]["ref"] if blocks[-1]["reason"] == "approval" else ""
        after = page[-1]["sequence"]
    if not waiting:
        raise CommandError(f"{execution_id} waits for a signal, not for an approval")
    return str(waiting)
