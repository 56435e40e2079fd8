"""`piecework exec`: list, read, watch, cancel, repeat, forget and signal executions of the kernel door."""

import argparse
import json
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from piecework.jsons import loads
from piecework_cli.kernel import KernelClient, add_kernel_options, at, query
from piecework_cli.output import CommandError, show

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

STATUSES: Final = ("pending", "running", "blocked", "completed", "failed", "cancelled")
COMPLETED: Final = "execution.completed"
PAGE: Final = 200  # one answer lists at most this many
SUMMARY_CHARACTERS: Final = 120
AGO: Final = re.compile(r"(\d{1,9})([mhd])", re.ASCII)
LOOKS: Final = 5  # at a list that has not followed yet
PAUSE_SECONDS: Final = 1.0
PARTS: Final = 100  # requests in which one execution is erased


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    parser = commands.add_parser(
        "exec", help="list, read, watch, cancel, repeat, forget and signal executions of the kernel door"
    )
    add_kernel_options(parser)
    group = parser.add_subparsers(required=True, metavar="ACTION")
    listing = group.add_parser("ls", help="list executions, the newest first, one per line")
    listing.add_argument("--status", choices=STATUSES, help="only those in this status")
    listing.add_argument("--agent", help="only those of this agent")
    listing.add_argument("--label", action="append", default=[], metavar="KEY:VALUE", help="only those with this label")
    listing.add_argument("--since", metavar="TIME", help="only those created since: 90m, 2h, 7d, or an RFC 3339 time")
    listing.add_argument("--until", metavar="TIME", help="only those created before")
    listing.add_argument("--limit", type=int, default=50, help="list at most this many")
    listing.add_argument("--reasons", action="store_true", help="say what each waits for, or why it has failed")
    listing.set_defaults(run=list_executions)
    getting = group.add_parser("get", help="print one execution with its input and output")
    getting.add_argument("--events", action="store_true", help="print its whole log too")
    getting.set_defaults(run=get)
    watching = group.add_parser(
        "watch", help="print one line per event until the execution ends; exit status 1 unless it completed"
    )
    watching.add_argument("--after", type=int, default=0, metavar="SEQUENCE", help="only events after this one")
    watching.add_argument("--json", action="store_true", help="print whole events, one JSON object per line")
    watching.set_defaults(run=watch)
    cancelling = group.add_parser("cancel", help="end an execution for good")
    cancelling.set_defaults(run=cancel)
    signalling = group.add_parser("signal", help="send a signal to an execution")
    signalling.add_argument("--payload", metavar="JSON", help="the signal's payload; null without it")
    signalling.set_defaults(run=signal)
    sweeping = group.add_parser("cancel-all", help="count the open executions that a filter names, and end them all")
    sweeping.add_argument("--status", choices=STATUSES[:3], help="only those in this status")
    sweeping.add_argument("--agent", default="", help="only those of this agent")
    sweeping.add_argument(
        "--label", action="append", default=[], metavar="KEY:VALUE", help="only those with this label"
    )
    sweeping.add_argument("--confirm", type=int, metavar="COUNT", help="end them, if there are exactly so many")
    sweeping.set_defaults(run=cancel_all)
    forgetting = group.add_parser("forget", help="erase what an ended execution was about; that it was done stays")
    forgetting.add_argument("--reason", required=True, metavar="TEXT", help="why; it stays beside your token's name")
    forgetting.set_defaults(run=forget)
    repeating = group.add_parser("again", help="create an execution with the agent, input and labels of an ended one")
    repeating.add_argument("--key", metavar="TEXT", help="the same key creates one execution, however often it is sent")
    repeating.set_defaults(run=again)
    for one in (getting, watching, cancelling, signalling, repeating, forgetting):
        one.add_argument("execution", help="the execution's id")
    signalling.add_argument("type", help="the signal's type")


def list_executions(options: argparse.Namespace) -> None:
    """Print one line per execution, over as many pages as the limit needs; a page may be empty and not the last."""
    kernel, left, cursor = KernelClient.of(options), options.limit, ""
    which = {"status": options.status, "agent_id": options.agent}
    which |= {"created_after": _time_of(options.since), "created_before": _time_of(options.until)}
    while left > 0:
        asked = {**which, "cursor": cursor, "limit": min(left, PAGE), "include": "reasons" if options.reasons else None}
        page = kernel.ask("GET", f"/v0/executions{query(asked, options.label)}")
        for row in page["executions"]:
            labels = " ".join(f"{name}:{value}" for name, value in row["labels"].items())
            why = (row.get("waiting_for") or row.get("error") or "").replace("\n", " ")
            line = f"{row['id']}  {row['status']:<9}  {row['created_at']}  {row['agent_id']}  {labels}".rstrip()
            print(f"{line}  {why}" if why else line)
        left, cursor = left - len(page["executions"]), page["next_cursor"]
        if not cursor:
            return


def get(options: argparse.Namespace) -> None:
    """Print an execution, and its log on request."""
    kernel = KernelClient.of(options)
    execution = kernel.ask("GET", at(options.execution))
    if options.events:
        execution["events"] = _log(kernel, options.execution)
    show(execution)


def watch(options: argparse.Namespace) -> int:
    """Print every event as it comes; 0 when the execution has completed, 1 when it ended otherwise."""
    kernel, kind = KernelClient.of(options), ""
    for event in kernel.follow(options.execution, options.after):
        kind = event["type"]
        print(json.dumps(event) if options.json else line_of(event), flush=True)
    if not kind:  # the execution had already ended and the log has no newer event
        kind = f"execution.{kernel.ask('GET', at(options.execution))['status']}"
    return 0 if kind == COMPLETED else 1


def cancel(options: argparse.Namespace) -> None:
    """Cancel an execution, and print its new state."""
    show(KernelClient.of(options).ask("POST", at(options.execution, "cancel")))


def cancel_all(options: argparse.Namespace) -> None:
    """Count the executions that a filter names; with that count confirmed, end them, part by part."""
    kernel, path = KernelClient.of(options), "/v0/executions/cancel"
    which = {"agent_id": options.agent, "labels": dict(map(_label, options.label)), "status": options.status or ""}
    counted = kernel.ask("POST", path, which)
    count, cursor = counted["count"], counted["cursor"]
    if options.confirm is None:
        print(f"{count}{' and perhaps more' if counted['more'] else ''} would be cancelled; add --confirm {count}")
        return
    left = options.confirm
    while True:
        done = kernel.ask("POST", path, {**which, "cursor": cursor, "confirm": left})
        print(f"{done['cancelled']} cancelled, {done['remaining']} left", flush=True)
        if not done["remaining"]:
            return
        left = _counted_anew(kernel, path, {**which, "cursor": cursor}, done["remaining"])


def _counted_anew(kernel: KernelClient, path: str, which: dict[str, Any], most: int) -> int:
    """How many are left, once the list shows that; executions that were not counted at first are never added.

    Raises:
        CommandError: there are more than were left.
    """
    for _ in range(LOOKS):
        count = int(kernel.ask("POST", path, which)["count"])
        if count <= most:
            return count
        time.sleep(PAUSE_SECONDS)
    raise CommandError(f"{count} fit now, more than the {most} that were left; look again, and confirm that number")


def _label(text: str) -> tuple[str, str]:
    name, parted, value = text.partition(":")
    if not name or not parted:
        raise CommandError("a label reads KEY:VALUE")
    return name, value


def again(options: argparse.Namespace) -> None:
    """Run an ended execution again, and print the new one."""
    body = {"idempotency_key": options.key} if options.key else {}
    show(KernelClient.of(options).ask("POST", at(options.execution, "again"), body))


def forget(options: argparse.Namespace) -> None:
    """Erase what an execution was about, and print what stays.

    Raises:
        CommandError: some is left after very many requests.
    """
    kernel = KernelClient.of(options)
    for _ in range(PARTS):
        found = kernel.ask("POST", at(options.execution, "forget"), {"reason": options.reason})
        if found["forgotten"]["complete"]:
            return show(found)
    raise CommandError("some of it is left; run this again")


def signal(options: argparse.Namespace) -> None:
    """Send a signal."""
    payload = None if options.payload is None else loads(options.payload)
    body = {"signal_type": options.type, "payload": payload}
    KernelClient.of(options).ask("POST", at(options.execution, "signal"), body)
    print(f"{options.type} sent")


def line_of(event: dict[str, Any]) -> str:
    """An event in one line: number, time, type, who caused it if a name is known, the beginning of what it says."""
    by = f"by {event['by']}  " if event.get("by") else ""
    said = json.dumps(event["payload"], ensure_ascii=False)
    said = said if len(said) <= SUMMARY_CHARACTERS else f"{said[:SUMMARY_CHARACTERS]}…"
    return f"{event['sequence']:>4}  {event['timestamp']}  {event['type']:<22}  {by}{said}"


def _time_of(text: str | None) -> str | None:
    """A time as the door takes it; so many minutes, hours or days are counted back from now."""
    ago = AGO.fullmatch(text or "")
    if ago is None:
        return text
    seconds = int(ago[1]) * {"m": 60, "h": 3_600, "d": 86_400}[ago[2]]
    return datetime.fromtimestamp(max(0, time.time() - seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(kernel: KernelClient, execution_id: str) -> list[Any]:
    events: list[Any] = []
    while True:
        after = events[-1]["sequence"] if events else 0
        page = kernel.ask("GET", at(execution_id, f"events{query({'after_sequence': after, 'limit': 1000})}"))["events"]
        if not page:
            return events
        events += page
