"""Stock x402 clients as seekers: each pays from its own environment, in a process of its own.

made = pay("httpx", url, {"X-Contract-ID": "ctr_demo01"}, {"brief": "…"}, times=2)
made.answers[0].status, made.answers[0].json(), made.answers[0].receipt(), made.signed
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from piecework.jsons import Json
from tests.support.worker.contracts import SEEKER_KEY

ROOT = Path(__file__).resolve().parents[3]
STOCK = ROOT / "tests" / "support" / "stock"
NODE_HOME = ROOT / "build" / "node"
V2 = [str(ROOT / ".venv-seekers/bin/python"), str(STOCK / "python_v2.py")]
V1 = [str(ROOT / ".venv-x402v1/bin/python"), str(STOCK / "python_v1.py")]
CLIENTS = ("httpx", "requests", "v1", "fetch")
CAP = "$10"
SECONDS = 120


@dataclass(frozen=True)
class Seen:
    """What a stock client got: an answer, or the error it raised on its own side."""

    status: int | None
    headers: Mapping[str, str]
    body: str
    error: str | None

    def json(self) -> Json:
        return json.loads(self.body)

    def receipt(self) -> Json:
        """The settlement's receipt of either version, or None."""
        value = self.headers.get("payment-response") or self.headers.get("x-payment-response")
        return json.loads(base64.b64decode(value, validate=True)) if value else None


@dataclass(frozen=True)
class Made:
    """All answers, and the nonce of each payment that the client signed."""

    answers: list[Seen]
    signed: list[str]


def pay(
    client: str,
    url: str,
    headers: Mapping[str, str],
    body: Json,
    *,
    method: str = "POST",
    key: str = SEEKER_KEY,
    cap: str | None = CAP,
    times: int = 1,
) -> Made:
    """Call a URL with a stock client, as often as asked; each call is one use of the client."""
    order = {
        "client": client,
        "url": url,
        "method": method,
        "headers": dict(headers),
        "body": body,
        "key": key,
        "cap": cap,
        "times": times,
    }
    done = subprocess.run(
        _command(client),
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=NODE_HOME if client == "fetch" else ROOT,
        env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    answers = [Seen(a.get("status"), a.get("headers", {}), a.get("body", ""), a.get("error")) for a in found["answers"]]
    return Made(answers, found["signed"])


def _command(client: str) -> list[str]:
    if client == "fetch":
        return [node("@x402/fetch"), str(STOCK / "fetch.cjs")]
    return V1 if client == "v1" else V2


@cache
def node(package: str) -> str:
    """Node with a stock client's package installed; skips the test where Node itself is missing."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if not found or not npm:
        pytest.skip(f"Node.js is not installed, so {package} cannot run: install it, with npm")
    if not (NODE_HOME / "node_modules" / package).is_dir():
        raise AssertionError(f"{package} is not installed: run `make build/node/.synced`")
    return found
