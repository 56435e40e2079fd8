"""Hires for benchmarks: the worker's settings, contracts with both signatures, and payments for a 402."""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from local.facilitator.rules import TOKENS, typed_transfer
from local.facilitator.server import StubFacilitator
from local.gateway.lambdas.variables import EMULATED_KEY, FILES_KEY, ROOT
from local.gateway.routes import api_of
from local.run import WORKER
from local.template import Template
from piecework.jsons import Json

SEEKER_KEY: Final = "0x" + "11" * 32  # a public development key
TASK: Final = {"brief": "hello"}
EXECUTOR: Final = "echo"  # the executor of every measurement
STREAM_KEY: Final = "a key that only benchmarks use"


@cache
def deployed(root: Path = ROOT) -> Template:
    """A tree's template with the worker door and the kernel door, read once."""
    chosen = dict.fromkeys(("DefaultExecutor", "WorkerDefaultExecutor"), EXECUTOR)
    doors = {"DeployWorkerDoor": "true", "DeployKernelDoor": "true"}
    return Template.load(root / "template.yaml", {**doors, **chosen})


def variables(function: str, public_url: str, facilitator_url: str) -> dict[str, str]:
    """The variables that the template and the operator set on a function of the worker door."""
    declared = api_of(deployed(), "WorkerApi").functions[function].environment
    return {**declared, "PUBLIC_BASE_URL": public_url, **worker(facilitator_url)}


def worker(facilitator_url: str) -> dict[str, str]:
    """The worker's own settings."""
    return {
        **WORKER,
        "PIECEWORK_STREAM_KEY": STREAM_KEY,
        "FACILITATOR_URL": facilitator_url,
        FILES_KEY: EMULATED_KEY,
        "BASE_RPC_URL": f"{facilitator_url}/rpc",
    }


def facilitator() -> StubFacilitator:
    """A stub that checks signatures and stores nonces."""
    return StubFacilitator()


def payment(required: str) -> str:
    """The PAYMENT-SIGNATURE for the first way that a PAYMENT-REQUIRED header names."""
    from eth_account import Account
    from eth_account.messages import encode_typed_data

    entry: Mapping[str, Json] = json.loads(base64.b64decode(required))["accepts"][0]
    authorization = {
        "from": Account.from_key(SEEKER_KEY).address,
        "to": entry["payTo"],
        "value": entry["amount"],
        "validAfter": "0",
        "validBefore": str(int(time.time()) + entry["maxTimeoutSeconds"]),
        "nonce": "0x" + secrets.token_hex(32),
    }
    message = encode_typed_data(full_message=typed_transfer(authorization, TOKENS[entry["network"]]))
    signature = "0x" + Account.sign_message(message, SEEKER_KEY).signature.hex().removeprefix("0x")
    payload = {"signature": signature, "authorization": authorization}
    document = {"x402Version": 2, "accepted": entry, "payload": payload}
    return base64.b64encode(json.dumps(document).encode()).decode()
