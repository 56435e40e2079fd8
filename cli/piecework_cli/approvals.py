"""`piecework approvals`: tool calls that wait for a person, and that person's answer."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from piecework_cli.kernel import KernelClient, add_kernel_options, at, query
from piecework_cli.output import CommandError, printable

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

PAGE: Final = 200  # a door's most
THEN: Final = {"deny": "it is denied", "fail": "the execution fails"}
UNSHOWN: Final = {
    "private": "private: they need the role approver",
    "none": "none",
    "unknown": "not in the list: look at this one by its ids",
}


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    parser = commands.add_parser(
        "approvals", help="list and answer tool calls of the kernel door that wait for a person"
    )
    add_kernel_options(parser)
    group = parser.add_subparsers(required=True, metavar="ACTION")
    listing = group.add_parser("ls", help="list the waiting calls, one per line")
    listing.add_argument("--limit", type=int, default=50, help="list at most this many")
    listing.add_argument("--answered", action="store_true", help="list answered calls instead, the newest answer first")
    listing.set_defaults(run=list_approvals)
    showing = group.add_parser("show", help="show what a person is asked, and the answer")
    showing.add_argument("execution", help="the execution's id")
    showing.add_argument("--step", help="the step's id; without it the command finds the waiting step")
    showing.set_defaults(run=show)
    for name, approved, told in (("grant", True, "allow the call"), ("deny", False, "deny the call for good")):
        answering = group.add_parser(name, help=told)
        answering.add_argument("execution", help="the execution's id")
        answering.add_argument("--step", help="the step's id; without it the command finds the waiting step")
        answering.add_argument("--reason", help="why the call is denied; the agent reads it")
        answering.set_defaults(run=answer, approved=approved)


def list_approvals(options: argparse.Namespace) -> None:
    """Print one line for each call."""
    kernel, cursor, left = KernelClient.of(options), "", options.limit
    state = {"state": "answered"} if options.answered else {}
    while left > 0:
        more = {"cursor": cursor} if cursor else {}
        page = kernel.ask("GET", f"/v0/approvals{query({'limit': min(left, PAGE), **state, **more})}")
        for found in page["approvals"]:
            print(_line(found))
        left, cursor = left - len(page["approvals"]), page.get("next_cursor", "")
        if not cursor:
            return


def show(options: argparse.Namespace) -> None:
    """Print what a person is asked about one call, and the answer where there is one."""
    kernel = KernelClient.of(options)
    step_id = options.step or _waiting_step(kernel, options.execution)
    found = kernel.ask("GET", at(options.execution, f"approvals/{quote(step_id, safe='')}"))
    for name, told in _facts(found):
        print(f"{name:<10} {printable(told)}".rstrip())


def _line(found: dict[str, Any]) -> str:
    about = [found["execution_id"], found["agent_id"], found["tool_id"], f"since {found['since']}"]
    if found.get("answer"):
        about.append(_answered(found["answer"]))
    elif found.get("expires_at"):
        about.append(f"until {found['expires_at']}")
    return printable("  ".join(about))


def _facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "tool", found["tool_id"]
    yield "agent", found["agent_id"]
    yield "execution", found["execution_id"]
    yield "step", found["step_id"]
    if found["rule_id"]:
        yield "rule", f"{found['rule_id']}{': ' if found['reason'] else ''}{found['reason'] or ''}"
    if found["asked_by"]:
        yield "asked by", found["asked_by"]
    yield "since", found["since"]
    if found["expires_at"]:
        yield "until", f"{found['expires_at']}; then {THEN[found['on_timeout']]}"
    yield from _arguments(found["arguments"])
    yield "state", _answered(found["answer"]) if found["answer"] else found["state"]


def _arguments(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if given["shown"] == "whole":
        first, *more = json.dumps(given["value"], indent=2, ensure_ascii=False).split("\n")
        yield "arguments", first
        yield from (("", line) for line in more)
    elif given["shown"] == "beginning":
        yield "arguments", f"{given['text']}… ({len(given['text'])} of {given['length']} characters)"
    else:
        yield "arguments", UNSHOWN[given["shown"]]


def _answered(said: dict[str, Any]) -> str:
    if said["timed_out"]:
        return f"denied at {said['at']}: {said['reason']}"
    reason = f": {said['reason']}" if said["reason"] else ""
    return f"{'granted' if said['approved'] else 'denied'} by {said['by'] or 'somebody'} at {said['at']}{reason}"


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
