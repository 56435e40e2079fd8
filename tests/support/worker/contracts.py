"""Contracts as tests need them: the specification's example, fresh ones, and both parties' signatures."""

import copy
import uuid

from eth_account import Account

from piecework.clock import DAY_MS
from piecework.jsons import Json
from piecework.worker.chain.networks import NETWORKS
from piecework.worker.contract.contracts import ContractRecord, WorkerIdentity, time_in_ms, time_text, validate
from piecework.worker.contract.signatures import contract_hash, sign
from piecework.worker.settings import WorkerSettings
from tests.support.served import url_run

SEEKER_KEY = url_run.given("SEEKER_KEY") or "0x" + "11" * 32
WORKER_KEY = url_run.given("WORKER_KEY") or "0x" + "22" * 32
SEEKER_WALLET = Account.from_key(SEEKER_KEY).address
WORKER_WALLET = Account.from_key(WORKER_KEY).address
WORKER_AGENT_ID = url_run.given("WORKER_AGENT_ID") or "agent_work01"
NETWORK = url_run.given("NETWORK") or "base"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SETTINGS = {  # of a worker that takes real money, and money of a testnet
    "PUBLIC_BASE_URL": "https://w.example/hire",
    "WORKER_WALLETS": WORKER_WALLET,
    "WORKER_AGENT_ID": WORKER_AGENT_ID,
    "BASE_RPC_URL": "https://node.example",
    "ALLOW_TESTNET": "true",
}
IDENTITY = WorkerIdentity.of(WorkerSettings.from_env(SETTINGS | {"ALLOW_TESTNET": "false"}))
BOTH_NETWORKS = WorkerIdentity.of(WorkerSettings.from_env(SETTINGS))
EXAMPLE_NOW_MS = time_in_ms("2026-01-06T09:00:00Z")
EXAMPLE: dict[str, Json] = {
    "version": "HIRE/1.0",
    "contract_id": "ctr_demo01",
    "created_at": "2026-01-05T09:00:00Z",
    "parties": {
        "seeker": {"agent_id": "agent_seek01", "wallet": SEEKER_WALLET},
        "worker": {"agent_id": WORKER_AGENT_ID, "wallet": WORKER_WALLET},
    },
    "task": {
        "description": "Score a pull request",
        "input_schema": {"type": "object", "required": ["brief"]},
        "output_schema": {"type": "object", "required": ["score"]},
    },
    "terms": {
        "price": {"amount": "5", "currency": "USDC", "network": NETWORK},
        "deadline": "2026-02-05T09:00:00Z",
        "payment_trigger": "on_delivery",
        "platform_fee": {"percentage": 1, "wallet": "0x00000000000000000000000000000000000000fe"},
    },
    "sla": {
        "max_latency_ms": 60000,
        "retry_policy": "3 attempts",
        "refund_conditions": ["deadline_missed", "output_schema_invalid"],
    },
    "callbacks": {
        "webhook_url": "https://seeker.example/hooks/hire",
        "webhook_secret_sha256": "3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9",
    },
    "signatures": {
        "worker": "0x0c22ba0620b9a13f1f0f7ba221a8bf3bf5a47f161767a21e2a3ec3fa311c9d1c"
        "246e1d7248704407136076adfe9217195bac4d4effac230cd28662b6585889a81c",
        "seeker": "0x52ab3bb5492bb6f714f783c002050693be0963a1e48a86ee21af531441c316fc"
        "5512a4c77041a4217c933a10167f15e29259899270330904c524be058cfefa7b1b",
        "timestamp": "2026-01-05T09:05:00Z",
    },
    "hash": "sha256:9a466562540c84f409b1967ff703bbcce44b484789649c4d90b87fc5fd48022b",
}


def a_contract(now_ms: int = EXAMPLE_NOW_MS, **changes: Json) -> dict[str, Json]:
    """A signed contract with an id of its own, without callbacks; `terms__price__amount="1"` changes a member."""
    document = copy.deepcopy(EXAMPLE)
    del document["callbacks"]
    document["contract_id"] = f"ctr_{uuid.uuid4().hex}"
    document["terms"]["deadline"] = time_text(now_ms + 30 * DAY_MS)
    for path, value in changes.items():
        change(document, path, value)
    return signed(document)


def change(document: dict[str, Json], path: str, value: Json) -> None:
    """Set a member, or take it away when the value is `...`."""
    *parents, name = path.split("__")
    for parent in parents:
        document = document.setdefault(parent, {})
    if value is ...:
        document.pop(name, None)
    else:
        document[name] = value


def signed(document: dict[str, Json], worker_key: str = WORKER_KEY, seeker_key: str = SEEKER_KEY) -> dict[str, Json]:
    """The document with its hash and both signatures made anew."""
    network = NETWORKS.get(document["terms"]["price"]["network"], NETWORKS["base"])
    document["hash"] = contract_hash(document)
    for role, key in (("worker", worker_key), ("seeker", seeker_key)):
        document["signatures"][role] = sign(key, document["contract_id"], document["hash"], role, network)
    return document


def a_record(now_ms: int = EXAMPLE_NOW_MS, **changes: Json) -> ContractRecord:
    """A validated contract."""
    return validate(a_contract(now_ms, **changes), None, BOTH_NETWORKS, now_ms)
