"""`make demo-hire`: sign a contract with two local wallets, hire the running worker twice, pay once, fetch the file."""

import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from local.gateway.variables import ROOT
from local.run import DOORS, PORT_BASE, WORKER
from piecework.hire.networks import NETWORKS
from piecework.hire.signatures import contract_hash, sign

PYTHON: Final = ROOT / ".venv-seekers" / "bin" / "python"
WORKER_KEY: Final = "0x" + "22" * 32  # of local.run's wallet; a development key that everybody knows
PRICE: Final = "5"
CAP: Final = "$10"
INPUT: Final = {"brief": "Say hello"}


def main() -> int:
    """Hire once, ask again, download; returns the exit status."""
    port = int(os.environ.get("PIECEWORK_PORT_BASE", PORT_BASE)) + DOORS["WorkerApi"]
    url = os.environ.get("URL") or f"http://127.0.0.1:{port}"
    seeker_key = f"0x{secrets.token_hex(32)}"
    try:
        contract = signed_contract(seeker_key)
        taken_in = _fetch(f"{url}/contracts", {"contract": contract})
    except urllib.error.HTTPError as error:
        print(f"the worker refused the contract: {error.read().decode()}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"no worker at {url}: start `make run` in another terminal first ({error})", file=sys.stderr)
        return 1
    answer = json.loads(taken_in)
    print(f"contract   {answer['contract_id']} for {PRICE} USDC, {answer['hash']}")
    return _hire(answer["execute_url"], answer["contract_id"], seeker_key)


def _hire(execute_url: str, contract_id: str, seeker_key: str) -> int:
    order = {
        "url": execute_url,
        "headers": {"X-Contract-ID": contract_id},
        "body": INPUT,
        "key": seeker_key,
        "cap": CAP,
        "times": 2,
    }
    ended = subprocess.run([str(PYTHON), str(ROOT / "local" / "seeker.py")], input=json.dumps(order), text=True,
                           stdout=subprocess.PIPE, check=True)  # fmt: skip
    hired = json.loads(ended.stdout)
    first, again = hired["answers"]
    _show("first call ", first)
    _show("second call", again)
    print(f"payments   {hired['signed']}")
    return _download(first["body"]) if first["status"] == 200 and hired["signed"] == 1 else 1


def _show(call: str, answer: dict[str, Any]) -> None:
    body = answer["body"]
    print(f"{call} {answer['status']} {body.get('status')} {body.get('task_id', '')}")
    receipt = {name.lower(): value for name, value in answer["headers"].items()}.get("payment-response")
    if receipt:
        print(f"  receipt  {base64.b64decode(receipt).decode()}")
    print(f"  output   {json.dumps(body.get('output', body.get('error')))[:400]}")


def _download(body: dict[str, Any]) -> int:
    for file in body["deliverables"]:
        data = _fetch(file["url"])
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        print(f"file       {file['name']}: {len(data)} bytes, {digest}")
        if digest != file["checksum"]:
            print("  is not what was promised", file=sys.stderr)
            return 1
    return 0


def _fetch(url: str, document: Any = None) -> bytes:
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"} if data else {})
    with urllib.request.urlopen(request, timeout=30) as response:
        content: bytes = response.read()
        return content


def signed_contract(seeker_key: str) -> dict[str, Any]:
    """A contract between a new seeker and the local worker, signed by both."""
    from eth_account import Account

    now = datetime.now(UTC)
    document: dict[str, Any] = {
        "version": "HIRE/1.0",
        "contract_id": f"ctr_{secrets.token_hex(8)}",
        "created_at": _time(now),
        "parties": {
            "seeker": {"agent_id": "agent_seeker01", "wallet": Account.from_key(seeker_key).address},
            "worker": {"agent_id": WORKER["WORKER_AGENT_ID"], "wallet": WORKER["WORKER_WALLETS"]},
        },
        "task": {"description": "Echo a brief", "input_schema": {"type": "object", "required": ["brief"]}},
        "terms": {
            "price": {"amount": PRICE, "currency": "USDC", "network": "base"},
            "deadline": _time(now + timedelta(days=1)),
            "payment_trigger": "on_delivery",
            "platform_fee": {"percentage": 1, "wallet": "0x00000000000000000000000000000000000000fe"},
        },
        "sla": {"max_latency_ms": 60_000, "retry_policy": "3 attempts"},
    }
    digest = contract_hash(document)
    network = NETWORKS["base"]
    signed_by = {"worker": WORKER_KEY, "seeker": seeker_key}
    signatures = {
        role: sign(key, document["contract_id"], digest, role, network)  # type: ignore[arg-type]
        for role, key in signed_by.items()
    }
    return {**document, "signatures": {**signatures, "timestamp": _time(now)}, "hash": digest}


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    sys.exit(main())
