"""`piecework ops`: what operators do through the operator's door: webhooks, dead letters, and the record of it all."""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from piecework.jsons import Json
from piecework.worker.chain.exchange import Answer, Endpoint
from piecework_cli.output import CommandError, show
from piecework_cli.stacks import output_of
from piecework_cli.target import local_url

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OPS_DISTANCE: Final = 3  # of its port from the base port, as `make run` sets them
REQUEST_SECONDS: Final = 40.0  # more than the edge's 29 s
OUTPUT: Final = "ConsoleUrl"  # of a deployed stack
FIRST_REFUSAL: Final = 300


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("ops", help="send webhooks again, put dead letters back, show what operators did")
    group.add_argument("--ops", metavar="URL", default=os.environ.get("PIECEWORK_OPS_URL"), help="the operator's door")
    group.add_argument(
        "--token",
        default=os.environ.get("PIECEWORK_OPS_TOKEN"),
        help="the operator's door's token; better set PIECEWORK_OPS_TOKEN",
    )
    actions = group.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("status", help="print version, doors, settings and queues").set_defaults(run=status)
    actions.add_parser("records", help="print what operators did, the newest first").set_defaults(run=records)
    resending = actions.add_parser("resend", help="send a webhook again, from its first try on")
    resending.add_argument("contract", help="the contract's id")
    resending.add_argument("event", help="the webhook's id, as `ops task` prints it")
    resending.set_defaults(run=resend)
    showing = actions.add_parser("task", help="print a contract's task with its money and webhooks")
    showing.add_argument("contract", help="the contract's id")
    showing.set_defaults(run=task)
    looking = actions.add_parser("letters", help="print some dead letters of a queue; they stay where they are")
    looking.add_argument("queue", help="such as task or webhook; `ops status` names them")
    looking.set_defaults(run=letters)
    redriving = actions.add_parser("redrive", help="put dead letters back into their queue")
    redriving.add_argument("queue", help="such as task or webhook; `ops status` names them")
    redriving.add_argument("--count", type=int, default=10, help="at most so many, up to 10")
    redriving.set_defaults(run=redrive)
    for parser in (resending, redriving):
        parser.add_argument("--reason", required=True, help="why you do this; it is kept")


def status(options: argparse.Namespace) -> None:
    """Print what is deployed and how it stands."""
    show(_ask(options, "GET", "status"))


def records(options: argparse.Namespace) -> None:
    """Print the newest records."""
    show(_ask(options, "GET", "records"))


def task(options: argparse.Namespace) -> None:
    """Print one task."""
    show(_ask(options, "GET", "tasks", options.contract))


def resend(options: argparse.Namespace) -> None:
    """Send a webhook again."""
    at = ("tasks", options.contract, "webhooks", options.event, "resend")
    show(_ask(options, "POST", *at, body={"reason": options.reason}))


def letters(options: argparse.Namespace) -> None:
    """Print some dead letters."""
    show(_ask(options, "POST", "dead-letters", options.queue, "look", body={}))


def redrive(options: argparse.Namespace) -> None:
    """Put some dead letters back."""
    body: dict[str, Json] = {"reason": options.reason, "count": options.count}
    show(_ask(options, "POST", "dead-letters", options.queue, "redrive", body=body))


def _ask(options: argparse.Namespace, method: str, *parts: str, body: Json = None) -> Any:
    """Ask the operator's door.

    Raises:
        CommandError: it refuses, does not answer, or is another door.
    """
    url = options.ops or (_deployed(options.stack) if options.stack else local_url(OPS_DISTANCE))
    headers = {"authorization": f"Bearer {options.token}"} if options.token else {}
    path = "/".join(("/ops", *(quote(part, safe="") for part in parts)))
    answer = Endpoint(url.rstrip("/")).exchange(method, path, body, headers, REQUEST_SECONDS)
    if not isinstance(answer, Answer):
        raise CommandError(f"{url} does not answer; start `make run`, or name the operator's door with --ops")
    document = answer.document
    if answer.status < FIRST_REFUSAL and document is not None:
        return document
    if document is None or not {"error", "code"} <= document.keys():
        raise CommandError(f"{url} is not an operator's door (it answers {answer.status})")
    raise CommandError(f"{answer.status}: {document['error']}")


def _deployed(stack: str) -> str:
    url = output_of(stack, OUTPUT)
    if not url:
        raise CommandError(f"the stack {stack} does not have the operator's door; deploy it with DeployConsole=true")
    return url
