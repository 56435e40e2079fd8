"""`piecework contract`: write a contract, sign it for a party, show it, register it with a worker.

A file holds `{"contract": {…}, "webhook_secret": "whsec_…"}`, which is the body of POST /contracts; a bare contract is
read as well. The worker signs first, the seeker second.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from piecework.clock import now_in_ms
from piecework.jsons import Json
from piecework.worker.chain.networks import NETWORKS, SMALLEST_USUAL_ATOMIC, USDC_DECIMALS, Network
from piecework.worker.contract.contracts import ContractRecord, WorkerIdentity, time_text, validate
from piecework.worker.contract.signatures import SignatureCheck, is_signed_by_key, sign
from piecework.worker.errors import ContractInvalid
from piecework.worker.ids import CONTRACT_ID
from piecework_cli.keys import address_of, read_key
from piecework_cli.output import CommandError, read_json, show, text_of, write_private
from piecework_cli.proposal import add_proposal_options, propose
from piecework_cli.target import Target

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OK: Final = 200
CREATED: Final = 201


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("contract", help="write, sign, show and register contracts").add_subparsers(
        required=True, metavar="ACTION"
    )
    proposing = group.add_parser("propose", help="write an unsigned contract")
    add_proposal_options(proposing)
    proposing.set_defaults(run=propose)
    signing = group.add_parser("sign", help="sign a contract file for one party, the worker first")
    signing.add_argument("file", type=Path)
    signing.add_argument("--as", dest="role", choices=["worker", "seeker"], required=True)
    signing.add_argument(
        "--key", type=Path, required=True, help="a file with the private key, or an encrypted key store"
    )
    signing.set_defaults(run=sign_file)
    showing = group.add_parser(
        "show", help="print a contract file's terms and problems, or a worker's record of a contract id"
    )
    showing.add_argument("what", help="a contract file, or a contract id")
    showing.set_defaults(run=show_contract)
    registering = group.add_parser("register", help="register a signed contract with a worker, as a seeker")
    registering.add_argument("file", type=Path)
    registering.set_defaults(run=register)
    importing = group.add_parser("import", help="write a signed contract into the worker's table, as its operator")
    importing.add_argument("file", type=Path)
    importing.set_defaults(run=import_file)


def sign_file(options: argparse.Namespace) -> None:
    """Add one party's signature to a contract file, if the rest of the contract is valid."""
    body = read_body(options.file)
    document, role = body["contract"], options.role
    key = read_key(options.key)
    _check_rest(body, role)
    if address_of(key).lower() != document["parties"][role]["wallet"].lower():
        raise CommandError(f"the key does not belong to parties.{role}.wallet")
    network = NETWORKS[document["terms"]["price"]["network"]]
    document["signatures"][role] = sign(key, document["contract_id"], document["hash"], role, network)
    document["signatures"]["timestamp"] = time_text(now_in_ms())
    write_private(options.file, text_of(body))
    print(f"signed {document['contract_id']} as the {role}")


def show_contract(options: argparse.Namespace) -> int:
    """Print a file's terms and problems, or a worker's record of an id."""
    if CONTRACT_ID.fullmatch(options.what) and not Path(options.what).exists():
        answer = Target.of(options).ask("GET", f"/contracts/{options.what}")
        show(answer.document)
        return 0 if answer.status == OK else 1
    body = read_body(Path(options.what))
    try:
        record = _validated(body, _party(body["contract"]))
    except ContractInvalid as error:
        show({"accepted": False, "rule": error.rule, "problem": error.message})
        return 1
    show({"accepted": True, **terms_of(record)})
    return 0


def register(options: argparse.Namespace) -> int:
    """Send the file to POST /contracts and print the answer."""
    answer = Target.of(options).ask("POST", "/contracts", read_body(options.file))
    show(answer.document)
    return 0 if answer.status in (OK, CREATED) else 1


def import_file(options: argparse.Namespace) -> None:
    """Validate the file as the worker would, and write it into the worker's table."""
    from piecework.worker.store.contracts_table import ContractsTable

    target, body = Target.of(options), read_body(options.file)
    settings = target.settings
    check = _signature_check(target.node_url)
    record = validate(
        body["contract"],
        body.get("webhook_secret"),
        WorkerIdentity.of(settings),
        now_in_ms(),
        source="import",
        is_signed=check,
    )
    kept = ContractsTable(target.clients.dynamodb, target.table("PIECEWORK_CONTRACTS_TABLE")).put(record)
    show({"contract_id": record.contract_id, "hash": record.hash, "kept": kept})


def read_body(path: Path) -> dict[str, Any]:
    """A contract file as the body of POST /contracts.

    Raises:
        CommandError: the file does not have either form of a contract file.
    """
    found = read_json(path)
    if isinstance(found, dict) and isinstance(found.get("contract"), dict):
        return found
    if isinstance(found, dict) and "contract_id" in found:
        return {"contract": found}
    raise CommandError(f"{path} does not hold a contract")


def terms_of(record: ContractRecord) -> dict[str, Json]:
    """A contract's terms, as both parties read them."""
    warning = {"warning": "some facilitators refuse payments under 0.001 USDC"}
    return {
        "contract_id": record.contract_id,
        "hash": record.hash,
        "seeker": record.seeker_wallet,
        "worker": record.worker_wallet,
        "price": f"{record.price} USDC on {record.network.name}",
        "atomic": record.atomic,
        "decimals": USDC_DECIMALS,
        "deadline": time_text(record.deadline_ms),
        "attempts": record.attempts,
        "max_latency_ms": record.max_latency_ms,
        "webhook_url": record.webhook_url,
        **(warning if record.atomic < SMALLEST_USUAL_ATOMIC else {}),
    }


def _check_rest(body: dict[str, Any], role: str) -> None:
    """Check everything but the signature to be made now and the one that the other party adds later."""
    document = body["contract"]
    own = document.get("parties", {}).get(role, {}).get("wallet") if isinstance(document.get("parties"), dict) else None

    def others_only(wallet: str, digest: bytes, signature: str, network: Network) -> bool:
        return role == "worker" or wallet == own or is_signed_by_key(wallet, digest, signature, network)

    try:
        _validated(body, _party(document), others_only)
    except ContractInvalid as error:
        first = "; the worker signs first" if (error.rule, role) == ("V10", "seeker") else ""
        raise CommandError(f"not signed, rule {error.rule}: {error.message}{first}") from None


def _validated(body: dict[str, Any], rules: WorkerIdentity, check: SignatureCheck = is_signed_by_key) -> ContractRecord:
    return validate(body["contract"], body.get("webhook_secret"), rules, now_in_ms(), is_signed=check)


def _party(document: dict[str, Json]) -> WorkerIdentity:
    """The worker that the contract itself names, on any network; the worker decides whether that is itself."""
    try:
        worker = document["parties"]["worker"]
        wallets = frozenset({str(worker["wallet"]).lower()})
        return WorkerIdentity(str(worker["agent_id"]), wallets, allow_testnet=True, sees_base=True)
    except (KeyError, TypeError):
        raise CommandError("the contract does not name a worker") from None


def _signature_check(rpc_url: str) -> SignatureCheck:
    if not rpc_url:
        return is_signed_by_key
    from piecework.worker.chain.exchange import Endpoint
    from piecework.worker.contract.smart_wallets import SmartWallets

    return SmartWallets(Endpoint(rpc_url))
