"""A real EVM with a small USDC and the stock facilitator's own logic, behind HTTP on loopback.

with real_evm("base") as evm:
    evm.mint(SEEKER, 10_000_000)
    HttpFacilitator(evm.url), RpcChain(evm.rpc_url), evm.balance(WORKER)
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.die_with_parent import dying_with_parent
from piecework.jsons import Json

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = [str(ROOT / ".venv-seekers/bin/python"), str(ROOT / "tests/support/stock" / "evm.py")]
STOP_SECONDS = 10


@dataclass(frozen=True)
class Evm:
    """A running chain and its facilitator."""

    url: str

    @property
    def rpc_url(self) -> str:
        return f"{self.url}/rpc"

    def control(self, **wanted: Json) -> dict[str, Json]:
        body = json.dumps(wanted).encode()
        request = urllib.request.Request(f"{self.url}/control", data=body, method="PUT")
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def mint(self, owner: str, units: int) -> None:
        self.control(mint={owner: units})

    def balance(self, owner: str) -> int:
        return int(self.control(balances=[owner])["balances"][owner])

    def calls(self, call: str) -> int:
        """How often the facilitator was asked."""
        with urllib.request.urlopen(f"{self.url}/control") as answer:
            return int(json.load(answer)[call])


@contextmanager
def real_evm(network: str = "base") -> Iterator[Evm]:
    """Run one; takes some seconds to come up."""
    process = subprocess.Popen(
        dying_with_parent("exec", *PROGRAM, "--network", network),
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
    )
    try:
        url = process.stdout.readline().strip() if process.stdout else ""
        assert url, "the EVM did not come up: run `make .venv-seekers/.synced`"
        yield Evm(url)
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
        if process.stdout:
            process.stdout.close()
