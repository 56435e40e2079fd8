"""`make demo-hire`: sign a contract with two local wallets, hire the running worker twice, pay once, fetch the file."""

import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from local.aws import NotStarted
from local.gateway.lambdas.variables import ROOT
from local.preflight import port_base
from local.run import DOORS, WORKER
from piecework.worker.chain.networks import NETWORKS
from piecework.worker.contract.signatures import contract_hash, sign

PYTHON: Final = ROOT / ".venv-seekers" / "bin" / "python"
WORKER_KEY: Final = "0x" + "22" * 32  # of local.run's wallet; a public development key
PRICE: Final = "5"
CAP: Final = "$10"
DONE: Final = 200
PENDING: Final = "pending"
WATCH_SECONDS: Final = 180.0  # the first two checks of an unknown settlement come within 90 s
LOOK_SECONDS: Final = 3.0
INPUT: Final = {"brief": "Say hello"}


def main() -> int:
    """Hire once, ask again, download; returns the exit status."""
    seeker_key = f"0x{secrets.token_hex(32)}"
    url = os.environ.get("URL", "")
    try:
        url = url or f"http://127.0.0.1:{port_base(os.environ) + DOORS['WorkerApi']}"
        contract = signed_contract(seeker_key)
        taken_in = _fetch(f"{url}/contracts", {"contract": contract})
    except NotStarted as error:
        print(error, file=sys.stderr)
        return 1
    except urllib.error.HTTPError as error:
        print(f"the worker refused the contract: {error.read().decode()}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{url} does not answer; start `make run` in another terminal first ({error})", file=sys.stderr)
        return 1
    answer = json.loads(taken_in)
    print(f"contract   {answer['contract_id']} for {PRICE} USDC, {answer['hash']}")
    return _hire(url, answer["contract_id"], seeker_key)


def _hire(url: str, contract_id: str, seeker_key: str) -> int:
    order = {
        "url": f"{url}/execute",
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
    if hired["signed"] != 1:
        print("exactly one payment was expected; see the answers above", file=sys.stderr)
        return 1
    return _download(_ended(url, contract_id, again["body"] if again["status"] == DONE else first["body"]))


def _ended(url: str, contract_id: str, task: dict[str, Any]) -> dict[str, Any]:
    """The task at its end; the worker checks an unknown settlement until it is known."""
    given_up = time.monotonic() + WATCH_SECONDS
    if task.get("status") == PENDING:
        print(
            f"waiting    for {task['task_id']}: its work or its payment is not finished yet; polling every few seconds"
        )
    while task.get("status") == PENDING and time.monotonic() < given_up:
        time.sleep(LOOK_SECONDS)
        task = json.loads(_fetch(f"{url}/tasks/{task['task_id']}", headers={"X-Contract-ID": contract_id}))
    return task


def _show(call: str, answer: dict[str, Any]) -> None:
    body = answer["body"]
    print(f"{call} {answer['status']} {body.get('status')} {body.get('task_id', '')}")
    receipt = {name.lower(): value for name, value in answer["headers"].items()}.get("payment-response")
    if receipt:
        print(f"  receipt  {base64.b64decode(receipt).decode()}")
    print(f"  output   {json.dumps(body.get('output', body.get('error')))[:400]}")


def _download(body: dict[str, Any]) -> int:
    if "deliverables" not in body:
        print(f"not delivered: {json.dumps(body)[:400]}", file=sys.stderr)
        return 1
    for file in body["deliverables"]:
        data = _fetch(file["url"])
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        print(f"file       {file['name']}: {len(data)} bytes, {digest}")
        if digest != file["checksum"]:
            print("  the file does not have the promised digest", file=sys.stderr)
            return 1
    return 0


def _fetch(url: str, document: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
    data = None if document is None else json.dumps(document).encode()
    own = {"content-type": "application/json"} if data else {}
    request = urllib.request.Request(url, data, {**own, **(headers or {})})
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
