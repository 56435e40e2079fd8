"""`piecework contract propose`: an unsigned contract from options, with its hash and a random webhook secret."""

import argparse
import base64
import hashlib
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any, Final

import piecework
from piecework.clock import DAY_MS, now_in_ms
from piecework.extend.manifest import Bundle, load
from piecework.jsons import Json
from piecework.worker.chain.networks import NETWORKS
from piecework.worker.contract.contracts import time_text
from piecework.worker.contract.signatures import contract_hash
from piecework_cli.output import CommandError, read_json, show, text_of, write_private
from piecework_cli.target import Target

SECRET_BYTES: Final = 32
ID_BYTES: Final = 12
NO_WALLET: Final = "0x0000000000000000000000000000000000000000"
TERM: Final = re.compile(r"([1-9][0-9]{0,3})([dhm])")
UNIT_MS: Final = {"d": DAY_MS, "h": 3_600_000, "m": 60_000}


def add_proposal_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a contract."""
    parser.add_argument("file", type=Path, nargs="?", help="the file to write; without it the contract is printed")
    parser.add_argument("--id", help="the contract's id; without it a random one")
    parser.add_argument("--seeker", required=True, metavar="WALLET")
    parser.add_argument("--seeker-agent", default="agent_seeker", metavar="AGENT_ID")
    parser.add_argument("--worker", required=True, metavar="WALLET")
    parser.add_argument("--worker-agent", required=True, metavar="AGENT_ID")
    parser.add_argument("--description", required=True)
    parser.add_argument("--price", required=True, metavar="USDC", help="the price, such as 5 or 0.25")
    parser.add_argument("--network", default="base", choices=sorted(NETWORKS))
    parser.add_argument("--term", default="30d", help="how long the contract is open: 30d, 12h, 45m")
    parser.add_argument(
        "--executor",
        metavar="NAME",
        help="the executor that does the work, named in the manifest; without it the worker's default",
    )
    parser.add_argument("--input-schema", type=Path, metavar="FILE")
    parser.add_argument("--output-schema", type=Path, metavar="FILE")
    parser.add_argument("--max-latency-ms", type=int)
    parser.add_argument("--attempts", type=int)
    parser.add_argument("--fee-percentage", type=int, default=0)
    parser.add_argument("--fee-wallet", default=NO_WALLET, metavar="WALLET")
    parser.add_argument(
        "--webhook-url", help="the URL to call when the work is paid; a random secret is stored in the file"
    )


def propose(options: argparse.Namespace) -> None:
    """Write or print the contract."""
    secret = _secret() if options.webhook_url else None
    if options.executor:
        check_executor(options)
    document = a_proposal(options, secret, now_in_ms())
    body = {"contract": document} | ({"webhook_secret": secret} if secret else {})
    if options.file is None:
        show(body)
        return
    write_private(options.file, text_of(body))
    print(f"proposed {document['contract_id']} in {options.file}")


def check_executor(options: argparse.Namespace) -> None:
    """Check that the named worker runs the executor; without a named worker, that this checkout does.

    Raises:
        CommandError: it does not, or the named worker does not answer.
    """
    names = advertised_names(Target.of(options)) if options.url or options.stack else own_names()
    if names is not None and options.executor not in names:
        raise CommandError(f"--executor: this worker does not run {options.executor}; it runs {', '.join(names)}")


def advertised_names(target: Target) -> tuple[str, ...]:
    """The executors that a worker's manifest lists. Raises CommandError."""
    document = target.ask("GET", "/manifest").document or {}
    return tuple(str(each.get("name")) for each in document.get("capabilities", ()))


def own_names() -> tuple[str, ...] | None:
    """The executors of this checkout, or None where the command was installed without executors."""
    sys.path.append(str(Path(piecework.__file__).resolve().parents[2]))  # layers/, beside the package's own folder
    try:
        return Bundle(load(os.environ.get("PIECEWORK_EXECUTORS_PATH", "")), door="worker").names
    except ModuleNotFoundError:
        return None
    finally:
        sys.path.pop()


def a_proposal(options: argparse.Namespace, secret: str | None, now_ms: int) -> dict[str, Json]:
    """The contract with its hash and empty signatures.

    Raises:
        CommandError: the term cannot be read, or a schema file does not hold canonical JSON.
    """
    document: dict[str, Json] = {
        "version": "HIRE/1.0",
        "contract_id": options.id or f"ctr_{secrets.token_hex(ID_BYTES)}",
        "created_at": time_text(now_ms),
        "parties": {
            "seeker": {"agent_id": options.seeker_agent, "wallet": options.seeker},
            "worker": {"agent_id": options.worker_agent, "wallet": options.worker},
        },
        "task": _task(options),
        "terms": {
            "price": {"amount": options.price, "currency": "USDC", "network": options.network},
            "deadline": time_text(now_ms + _term_ms(options.term)),
            "payment_trigger": "on_delivery",
            "platform_fee": {"percentage": options.fee_percentage, "wallet": options.fee_wallet},
        },
        **_agreed(options, secret),
        "signatures": {"worker": "", "seeker": "", "timestamp": time_text(now_ms)},
    }
    try:
        return {**document, "hash": contract_hash(document)}
    except ValueError as error:
        raise CommandError(str(error)) from None


def _task(options: argparse.Namespace) -> dict[str, Json]:
    task: dict[str, Any] = {"description": options.description}
    if options.executor:
        task["requirements"] = [options.executor]
    for name in ("input_schema", "output_schema"):
        if path := getattr(options, name):
            task[name] = read_json(path)
    return task


def _agreed(options: argparse.Namespace, secret: str | None) -> dict[str, Json]:
    """The optional members: service level and callbacks."""
    sla: dict[str, Json] = {}
    if options.max_latency_ms is not None:
        sla["max_latency_ms"] = options.max_latency_ms
    if options.attempts is not None:
        sla["retry_policy"] = f"{options.attempts} attempts"
    members: dict[str, Json] = {"sla": sla} if sla else {}
    if secret:
        digest = hashlib.sha256(base64.b64decode(secret.removeprefix("whsec_"))).hexdigest()
        members["callbacks"] = {"webhook_url": options.webhook_url, "webhook_secret_sha256": digest}
    return members


def _term_ms(text: str) -> int:
    if not (found := TERM.fullmatch(text)):
        raise CommandError("--term must be a number followed by d, h or m, such as 30d")
    return int(found[1]) * UNIT_MS[found[2]]


def _secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")
