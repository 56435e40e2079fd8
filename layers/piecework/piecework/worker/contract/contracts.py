"""Contracts: what two wallets signed, checked once at entry and kept as the terms of the work (worker specification 3).

A contract is refused by the first of the rules V1 to V14 that it breaks. What is derived from it, such as the number of
attempts, is derived at entry and kept, so that a change of our settings never changes signed terms.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, Protocol, Self, TypeVar

from piecework.clock import DAY_MS
from piecework.jsons import Json
from piecework.net.addresses import AddressRefused
from piecework.schemas import SchemaRejected
from piecework.values import dataclass
from piecework.webhooks.addresses import webhook_target
from piecework.webhooks.keys import key_of
from piecework.worker.chain.networks import NETWORKS, Network, atomic_units
from piecework.worker.contract.schema import compile_task_schema, contract_checker
from piecework.worker.contract.signatures import Role, SignatureCheck, contract_hash, is_signed_by_key, signing_digest
from piecework.worker.errors import ContractInvalid, WorkerError
from piecework.worker.ids import CONTRACT_ID
from piecework.worker.settings import ADDRESS, MOST_ATTEMPTS, WorkerSettings, served

LONGEST_TERM_MS: Final = 90 * DAY_MS
KEPT_MS: Final = 100 * DAY_MS  # after the deadline: claims and receipts are kept for 90 days and refer to it
LONGEST_LATENCY_MS: Final = 82_800_000  # 23 h, so that one attempt fits the longest authorization
LONGEST_SYNC_MS: Final = 20_000  # the edge gives up at 29 s, and payment is settled inside
AMOUNT_RULE: Final = "terms.price.amount must be a plain decimal over 0 with at most 6 digits after the point"
_COUNT: Final = re.compile(r"\s*([0-9]{1,6})(?![0-9])\s*([A-Za-z]*)")

Source = Literal["api", "import"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Who we are in a contract, and what we accept there; wallets in lower case."""

    agent_id: str
    wallets: frozenset[str]
    allow_testnet: bool = False
    default_attempts: int = 3
    sees_base: bool = False  # a node of Base can be asked

    @classmethod
    def of(cls, settings: WorkerSettings) -> Self:
        """The identity that the settings state."""
        wallets = frozenset(wallet.lower() for wallet in settings.worker_wallets)
        attempts = settings.default_attempts
        return cls(settings.worker_agent_id, wallets, settings.allow_testnet, attempts, settings.sees_base)

    def serves(self, network: Network) -> bool:
        """Whether contracts in this network's money are taken."""
        return served(network, allow_testnet=self.allow_testnet, sees_base=self.sees_base)


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """A contract that passed every rule, and the values derived from it; wallets as the document writes them."""

    document: dict[str, Json]
    contract_id: str
    hash: str
    seeker_wallet: str
    worker_wallet: str
    network: Network
    price: str
    atomic: int
    deadline_ms: int
    attempts: int
    max_latency_ms: int | None
    sync_deadline_ms: int
    input_schema: Json
    output_schema: Json
    accept_partial: bool
    webhook_url: str | None
    webhook_secret: str | None
    source: Source
    stored_at_ms: int

    def __repr__(self) -> str:  # the document holds signatures, and the secret must reach no log
        return f"ContractRecord({self.contract_id}, {self.hash})"


class Contracts(Protocol):
    """Keeps contracts; what stands for an id never changes."""

    def put(self, record: ContractRecord) -> Literal["new", "same"]:
        """Keep a contract; the same one again changes nothing, its first secret stays. Raises ContractConflict."""

    def get(self, contract_id: str) -> ContractRecord | None:
        """The contract, strongly consistent."""


class ContractConflict(WorkerError):
    """The id stands for a contract with another hash."""

    def __init__(self) -> None:
        super().__init__("CONTRACT_CONFLICT", "this contract id stands for a contract with another hash")


def validate(
    document: Json,
    webhook_secret: str | None,
    rules: WorkerIdentity,
    now_ms: int,
    *,
    source: Source = "api",
    is_signed: SignatureCheck = is_signed_by_key,
) -> ContractRecord:
    """The record of a contract that passes V1 to V14, in their order.

    Raises:
        ContractInvalid: the first rule that it breaks.
    """
    _check_shape(document)
    _check_parties(document, rules)
    network = _check_terms(document, rules, now_ms)
    _check_hash(document)
    _check_signatures(document, network, is_signed)
    _check_schemas(document["task"])
    _check_callbacks(document.get("callbacks"), webhook_secret)
    _check_latency(document.get("sla", {}))
    attempts = attempts_of(document.get("sla", {}).get("retry_policy"), rules.default_attempts)
    return record_of(document, webhook_secret, attempts=attempts, source=source, stored_at_ms=now_ms)


def record_of(
    document: dict[str, Json], webhook_secret: str | None, *, attempts: int, source: Source, stored_at_ms: int
) -> ContractRecord:
    """The record of a document that was validated before."""
    parties, terms, sla = document["parties"], document["terms"], document.get("sla", {})
    latency = sla.get("max_latency_ms")
    latency = None if latency is None else int(latency)
    return ContractRecord(
        document=document,
        contract_id=document["contract_id"],
        hash=document["hash"],
        seeker_wallet=parties["seeker"]["wallet"],
        worker_wallet=parties["worker"]["wallet"],
        network=NETWORKS[terms["price"]["network"]],
        price=terms["price"]["amount"],
        atomic=atomic_units(terms["price"]["amount"]),
        deadline_ms=time_in_ms(terms["deadline"]),
        attempts=attempts,
        max_latency_ms=latency,
        sync_deadline_ms=LONGEST_SYNC_MS if latency is None else min(latency, LONGEST_SYNC_MS),
        input_schema=document["task"].get("input_schema", {}),
        output_schema=document["task"].get("output_schema", {}),
        accept_partial=terms.get("accept_partial", False),
        webhook_url=document.get("callbacks", {}).get("webhook_url"),
        webhook_secret=webhook_secret,
        source=source,
        stored_at_ms=stored_at_ms,
    )


def attempts_of(retry_policy: Json, default: int) -> int:
    """How many attempts a retry policy gives: retries are further ones, attempts are all of them (3.4)."""
    found = _COUNT.match(str(retry_policy)) if retry_policy is not None else None
    if not found:
        return max(1, min(default, MOST_ATTEMPTS))
    are_all = found[2].lower() in ("attempt", "attempts")
    return max(1, min(int(found[1]) + (0 if are_all else 1), MOST_ATTEMPTS))


def time_in_ms(text: str) -> int:
    """An RFC 3339 UTC time as epoch milliseconds. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError("a time needs its offset")
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def time_text(at_ms: int) -> str:
    """Epoch milliseconds as an RFC 3339 UTC time in whole seconds."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_shape(document: Json) -> None:
    if problem := contract_checker().problem(document, "contract"):
        raise ContractInvalid("V1", problem.text)
    if not CONTRACT_ID.fullmatch(document["contract_id"]):
        raise ContractInvalid("V2", "contract_id must match ctr_[A-Za-z0-9_-]{1,60}")


def _check_parties(document: dict[str, Json], rules: WorkerIdentity) -> None:
    worker, seeker = document["parties"]["worker"], document["parties"]["seeker"]
    if worker["agent_id"] != rules.agent_id or worker["wallet"].lower() not in rules.wallets:
        raise ContractInvalid("V3", "parties.worker is not this worker")
    if not ADDRESS.fullmatch(seeker["wallet"]) or seeker["wallet"].lower() in rules.wallets:
        raise ContractInvalid("V4", "parties.seeker.wallet must be an address other than the worker's")


def _check_terms(document: dict[str, Json], rules: WorkerIdentity, now_ms: int) -> Network:
    terms = document["terms"]
    network = NETWORKS.get(terms["price"]["network"])
    if network is None or not rules.serves(network) or terms["price"]["currency"] != "USDC":
        names = " or ".join(name for name, known in NETWORKS.items() if rules.serves(known)) or "none at present"
        raise ContractInvalid("V5", f"terms.price must be in USDC on a network that is served here: {names}")
    _read("V6", AMOUNT_RULE, lambda: atomic_units(terms["price"]["amount"]))
    if terms["payment_trigger"] != "on_delivery":
        raise ContractInvalid("V7", "terms.payment_trigger must be on_delivery")
    deadline_ms = _read("V8", "terms.deadline is not a date", lambda: time_in_ms(terms["deadline"]))
    if not now_ms < deadline_ms <= now_ms + LONGEST_TERM_MS:
        raise ContractInvalid("V8", "terms.deadline must be in the future, at most 90 days away")
    return network


def _check_hash(document: dict[str, Json]) -> None:
    actual = _read("V9", "the contract holds a number that RFC 8785 cannot write", lambda: contract_hash(document))
    if not hmac.compare_digest(actual.encode(), document["hash"].encode()):
        raise ContractInvalid("V9", "hash is not the contract's")


def _check_signatures(document: dict[str, Json], network: Network, is_signed: SignatureCheck) -> None:
    roles: tuple[tuple[str, Role], ...] = (("V10", "worker"), ("V11", "seeker"))
    for rule, role in roles:
        wallet = document["parties"][role]["wallet"]
        digest = signing_digest(document["contract_id"], document["hash"], role, network)
        if not is_signed(wallet, digest, document["signatures"][role], network):
            raise ContractInvalid(rule, f"signatures.{role} is not the {role} wallet's signature of this contract")


def _check_schemas(task: dict[str, Json]) -> None:
    for name in ("input_schema", "output_schema"):
        try:
            compile_task_schema(task.get(name, {}))
        except SchemaRejected as error:
            raise ContractInvalid("V12", f"task.{name}: {error.message}") from None


def _check_callbacks(callbacks: dict[str, Json] | None, webhook_secret: str | None) -> None:
    if callbacks:
        try:
            webhook_target(callbacks["webhook_url"])
        except AddressRefused as error:
            raise ContractInvalid("V13", f"callbacks.webhook_url: {error.message}") from None
    commitment = (callbacks or {}).get("webhook_secret_sha256")
    if (commitment is None) != (webhook_secret is None):
        raise ContractInvalid("V13", "webhook_secret and callbacks.webhook_secret_sha256 belong together")
    if webhook_secret is None or commitment is None:
        return
    if not hmac.compare_digest(hashlib.sha256(secret_bytes(webhook_secret)).hexdigest(), commitment):
        raise ContractInvalid("V13", "webhook_secret is not the one that callbacks.webhook_secret_sha256 commits to")


def secret_bytes(webhook_secret: str) -> bytes:
    """The key inside a `whsec_` secret.

    Raises:
        ContractInvalid: it does not hold 24 to 64 bytes in base64.
    """
    try:
        return key_of(webhook_secret)
    except ValueError:
        raise ContractInvalid("V13", "webhook_secret must be whsec_ and the base64 of 24 to 64 bytes") from None


def _check_latency(sla: dict[str, Json]) -> None:
    latency = sla.get("max_latency_ms")
    if latency is not None and not 1 <= latency <= LONGEST_LATENCY_MS:
        raise ContractInvalid("V14", f"sla.max_latency_ms must be 1 to {LONGEST_LATENCY_MS}")


def _read(rule: str, problem: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError:
        raise ContractInvalid(rule, problem) from None
