"""`piecework ops`: what operators do through their door: pauses, webhooks, payments, dead letters, and the record."""

import argparse
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from piecework.jsons import Json
from piecework.worker.chain.exchange import Answer, Endpoint, Interrupted
from piecework_cli.output import CommandError, show
from piecework_cli.payments import add_refund, add_word
from piecework_cli.stacks import output_of
from piecework_cli.target import local_url

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OPS_DISTANCE: Final = 3  # of its port from the base port, as `make run` sets them
REQUEST_SECONDS: Final = 40.0  # more than the edge's 29 s
FORGOTTEN: Final = {"contract": "tasks", "piece": "pieces"}  # and where it is in the door's paths
CALLS: Final = 40  # of 15 s each
OUTPUT: Final = "ConsoleUrl"  # of a deployed stack
FIRST_REFUSAL: Final = 300
CONTRACT: Final = ("contract", "the contract's id")
QUEUE: Final = ("queue", "such as task or webhook; `ops status` names them")
SCOPE: Final = ("scope", "door:runtime, door:worker, door:kernel, or executor:NAME")
VERDICTS: Final[Mapping[str, tuple[str, str]]] = {  # flags of `verdicts`: the parameter's name, and what it is
    "--status": ("status", "passed, failed or inconclusive"),
    "--reason": ("reason", "a reason code, such as 101"),
    "--policy": ("policy_id", "the policy's id"),
    "--candidate": ("candidate_id", "the candidate's id"),
    "--execution": ("execution_id", "the execution's id"),
    "--digest": ("output_digest", "the output's SHA-256, as the candidate stated it"),
    "--by": ("caller", "the name of who asked for the verdict"),
    "--since-ms": ("since_ms", "not before this moment, epoch ms"),
    "--until-ms": ("until_ms", "not after this moment, epoch ms"),
    "--limit": ("limit", "at most so many, up to 50"),
    "--cursor": ("cursor", "the `next` of an earlier page"),
}

WEBHOOKS: Final[Mapping[str, tuple[str, str]]] = {  # flags of `webhooks`, as above
    "--execution": ("execution_id", "only those of an execution"),
    "--state": ("state", "pending, delivered, given_up or stopped"),
    "--limit": ("limit", "at most so many, up to 50"),
    "--cursor": ("cursor", "the `next` of an earlier page"),
}


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("ops", help="pause doors, decide payments, send webhooks again, put dead letters back")
    group.add_argument("--ops", metavar="URL", default=os.environ.get("PIECEWORK_OPS_URL"), help="the operator's door")
    group.add_argument(
        "--token",
        default=os.environ.get("PIECEWORK_OPS_TOKEN"),
        help="the operator's door's token; better set PIECEWORK_OPS_TOKEN",
    )
    actions = group.add_subparsers(required=True, metavar="ACTION")
    _action(actions, "status", status, "print version, doors, settings and queues")
    _action(actions, "records", records, "print what operators did, the newest first")
    _action(actions, "pauses", pauses, "print the doors and executors that are paused")
    pausing = _action(actions, "pause", pause, "give a door or an executor no new work; what was begun goes on", SCOPE)
    resuming = _action(actions, "resume", resume, "give a door or an executor work again", SCOPE)
    _add_verdicts(actions)
    event = ("event", "the webhook's id, as `ops task` prints it")
    resending = _action(actions, "resend", resend, "send a webhook again, from its first try on", CONTRACT, event)
    _action(actions, "task", task, "print a contract's task with its money and webhooks", CONTRACT)
    _action(actions, "letters", letters, "print some dead letters of a queue; they stay where they are", QUEUE)
    redriving = _action(actions, "redrive", redrive, "put dead letters back into their queue", QUEUE)
    redriving.add_argument("--count", type=int, default=10, help="at most so many, up to 10")
    forgetting = _action(
        actions, "forget", forget, "erase what a piece or a contract was about; that it was done stays"
    )
    forgetting.add_argument("what", choices=sorted(FORGOTTEN), help="what the id is of")
    forgetting.add_argument("id", help="a piece's key, or a contract's id")
    _action(actions, "evidence", evidence, "print what the chain says now of a payment in doubt", CONTRACT)
    words = "decide an unresolved payment, on evidence that was printed"
    deciding = _action(actions, "resolve", resolve, words, CONTRACT)
    add_word(deciding)
    deciding.add_argument("--evidence", required=True, metavar="DIGEST", help="`evidence`, as `ops evidence` prints it")
    notices = _add_webhooks(actions)
    for parser in (pausing, resuming, resending, redriving, forgetting, deciding, _add_refunds(actions), notices):
        parser.add_argument("--reason", required=True, help="why you do this; it is kept")


def _action(
    actions: "Commands", name: str, run: Callable[[argparse.Namespace], None], what: str, *arguments: tuple[str, str]
) -> argparse.ArgumentParser:
    """Add a command; `arguments` are the names of its positional ones and what they mean."""
    parser = actions.add_parser(name, help=what)
    for argument, meaning in arguments:
        parser.add_argument(argument, help=meaning)
    parser.set_defaults(run=run)
    return parser


def _add_refunds(actions: "Commands") -> argparse.ArgumentParser:
    """Add both steps of a refund; the second one needs a reason."""
    looking = actions.add_parser("refund-evidence", help="print what the chain says now of a transfer back")
    saying = actions.add_parser("refunded", help="say that what was owed back was paid, on evidence that was printed")
    for parser in (looking, saying):
        add_refund(parser)
    saying.add_argument("--evidence", required=True, metavar="DIGEST", help="`evidence`, as the first step prints it")
    saying.add_argument("--override", metavar="CONTRACT", help="the contract's id once more, where no chain tells it")
    looking.set_defaults(run=refund_evidence)
    saying.set_defaults(run=refunded)
    return saying


def _add_webhooks(actions: "Commands") -> argparse.ArgumentParser:
    """Add the list of webhooks about approvals, and the verb that sends one again; that needs a reason."""
    listing = _action(
        actions, "webhooks", webhooks, "print webhooks about approvals with their tries, the newest first"
    )
    for flag, (name, what) in WEBHOOKS.items():
        listing.add_argument(flag, dest=name, help=what)
    ids = ("execution", "the execution's id"), ("event", "the webhook's id, as `ops webhooks` prints it")
    return _action(actions, "resend-notice", resend_notice, "send a webhook about an approval again", *ids)


def _add_verdicts(actions: "Commands") -> None:
    judged = actions.add_parser("verdicts", help="print recent verdicts of POST /verify, the newest first")
    judged.add_argument("--piece", metavar="KEY", help="those on a piece's execution; then only with --limit, --cursor")
    for flag, (name, what) in VERDICTS.items():
        judged.add_argument(flag, dest=name, help=what)
    judged.set_defaults(run=verdicts)


def status(options: argparse.Namespace) -> None:
    """Print what is deployed and how it stands."""
    show(_ask(options, "GET", "status"))


def records(options: argparse.Namespace) -> None:
    """Print the newest records."""
    show(_ask(options, "GET", "records"))


def pauses(options: argparse.Namespace) -> None:
    """Print what is paused."""
    show(_ask(options, "GET", "pauses"))


def pause(options: argparse.Namespace) -> None:
    """Pause a door or an executor."""
    show(_ask(options, "POST", "pause", body={"scope": options.scope, "reason": options.reason}))


def resume(options: argparse.Namespace) -> None:
    """Resume a door or an executor."""
    show(_ask(options, "POST", "resume", body={"scope": options.scope, "reason": options.reason}))


def verdicts(options: argparse.Namespace) -> None:
    """Print a page of verdicts."""
    names = (name for name, _ in VERDICTS.values())
    query = {name: text for name in names if (text := getattr(options, name)) is not None}
    at = ("pieces", options.piece, "verdicts") if options.piece else ("verdicts",)
    show(_ask(options, "GET", *at, query=query))


def task(options: argparse.Namespace) -> None:
    """Print one task."""
    show(_ask(options, "GET", "tasks", options.contract))


def resend(options: argparse.Namespace) -> None:
    """Send a webhook again."""
    at = ("tasks", options.contract, "webhooks", options.event, "resend")
    show(_ask(options, "POST", *at, body={"reason": options.reason}))


def evidence(options: argparse.Namespace) -> None:
    """Print what the chain says of a payment in doubt, and the digest that names it."""
    show(_ask(options, "POST", "tasks", options.contract, "payment", "evidence", body={}))


def resolve(options: argparse.Namespace) -> None:
    """Decide an unresolved payment."""
    body: dict[str, Json] = {"decision": "not_paid" if options.not_paid else "paid", "evidence": options.evidence}
    given = {"transaction": options.paid, "override": options.override, "reason": options.reason}
    body |= {name: value for name, value in given.items() if value is not None}
    show(_ask(options, "POST", "tasks", options.contract, "payment", "resolve", body=body))


def webhooks(options: argparse.Namespace) -> None:
    """Print a page of webhooks about approvals."""
    query = {name: text for name, _ in WEBHOOKS.values() if (text := getattr(options, name)) is not None}
    show(_ask(options, "GET", "kernel", "webhooks", query=query))


def resend_notice(options: argparse.Namespace) -> None:
    """Send a webhook about an approval again."""
    at = ("approvals", options.execution, "webhooks", options.event, "resend")
    show(_ask(options, "POST", *at, body={"reason": options.reason}))


def refund_evidence(options: argparse.Namespace) -> None:
    """Print what the chain says of a transaction that is said to pay a debt back."""
    body: dict[str, Json] = {"debt": options.debt, "transaction": options.transaction}
    show(_ask(options, "POST", "tasks", options.contract, "payment", "refunded", "evidence", body=body))


def refunded(options: argparse.Namespace) -> None:
    """Say that what was owed back was paid."""
    names = ("debt", "transaction", "evidence", "override", "reason")
    body: dict[str, Json] = {name: value for name in names if (value := getattr(options, name)) is not None}
    show(_ask(options, "POST", "tasks", options.contract, "payment", "refunded", body=body))


def letters(options: argparse.Namespace) -> None:
    """Print some dead letters."""
    show(_ask(options, "POST", "dead-letters", options.queue, "look", body={}))


def redrive(options: argparse.Namespace) -> None:
    """Put some dead letters back."""
    body: dict[str, Json] = {"reason": options.reason, "count": options.count}
    show(_ask(options, "POST", "dead-letters", options.queue, "redrive", body=body))


def forget(options: argparse.Namespace) -> None:
    """Have a payload forgotten, in as many calls as that takes.

    Raises:
        CommandError: it is not complete after many calls.
    """
    for _ in range(CALLS):
        found = _ask(options, "POST", FORGOTTEN[options.what], options.id, "forget", body={"reason": options.reason})
        if found["complete"]:
            return show(found)
    raise CommandError(f"not all is erased yet after {CALLS} calls; repeat the command")


def _ask(
    options: argparse.Namespace,
    method: str,
    *parts: str,
    body: Json = None,
    query: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Ask the operator's door.

    Raises:
        CommandError: it refuses, does not answer, or is another door; or its answer is lost, and it may have done it.
    """
    url = options.ops or (_deployed(options.stack) if options.stack else local_url(OPS_DISTANCE))
    headers = {"authorization": f"Bearer {options.token}"} if options.token else {}
    path = "/".join(("/ops", *(quote(part, safe="") for part in parts)))
    path += f"?{urlencode(query)}" if query else ""
    answer = Endpoint(url.rstrip("/")).exchange(method, path, body, headers, REQUEST_SECONDS)
    if isinstance(answer, Interrupted) and method != "GET":
        raise CommandError(
            f"{url} was asked, and its answer did not come; it may have been done: see `piecework ops records`"
            " before you repeat it"
        )
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
