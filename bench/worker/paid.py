"""The time of a paid echo task over HTTP, beside the x402 SDK's own middleware in front of the same work.

Both sell behind the same stub facilitator, which checks every signature and takes each nonce once. Ours is the local
gateway with its functions' processes over the embedded AWS: it finds the contract, claims, stores the result and the
file, and could be killed at any point. The other is one process that does not store anything. Requests alternate one by
one, each with a payment that was signed before.
"""

import contextlib
import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.cold.starts import BenchFailed
from bench.figures import Samples, spread
from bench.gateway.load import gateway
from bench.worker.hiring import SEEKER_KEY, TASK, facilitator, payment, worker
from local.aws import stop, wait_until_answers
from local.demo_hire import PRICE, signed_contract
from local.gateway.lambdas.variables import PARAMETER_PREFIX, ROOT
from local.run import WORKER

SELLER: Final = Path(__file__).parents[1] / "baselines" / "x402_fastapi.py"
PYTHON: Final = ROOT / ".venv-seekers" / "bin" / "python"
TIMEOUT_SECONDS: Final = 60
WARM_UP: Final = 2  # requests of each that are not counted


def measure(endpoint: str, rounds: int) -> Samples:
    """Milliseconds of the paid request by round, their 90th percentile, and facilitator calls per sale of each."""
    with facilitator() as stub, _door(endpoint, stub.url) as ours, _seller(stub.url) as theirs:
        sellers = {"worker": _Seller(ours, by_contract=True), "x402_sdk": _Seller(theirs, by_contract=False)}
        for seller in (*sellers.values(),) * WARM_UP:
            seller.sell()
        found: dict[str, list[float]] = {name: [] for name in sellers}
        calls: dict[str, int] = dict.fromkeys(sellers, 0)
        for _ in range(rounds):
            for name, seller in sellers.items():
                before = len(stub.calls)
                found[name].append(seller.sell())
                calls[name] += len(stub.calls) - before
    return {
        **{f"paid_{name}_ms": times for name, times in found.items()},
        **{f"paid_{name}_p90_ms": spread(times)[1] for name, times in found.items()},
        **{f"paid_{name}_facilitator_requests": round(count / rounds, 2) for name, count in calls.items()},
    }


class _Seller:
    """A server that is asked, paid, and answers; a server that sells by contract gets the contract first."""

    def __init__(self, port: int, *, by_contract: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        self._by_contract = by_contract

    def sell(self) -> float:
        """Buy once: milliseconds from the paid request to its answer."""
        headers = self._contract() if self._by_contract else {}
        asked = self._send("/execute", TASK, headers, 402)
        paid = {**headers, "PAYMENT-SIGNATURE": payment(asked["payment-required"])}
        began = time.perf_counter()
        answer = self._send("/execute", TASK, paid, 200)
        took = (time.perf_counter() - began) * 1000
        if "payment-response" not in answer:
            raise BenchFailed("a sale came without a receipt")
        return took

    def _contract(self) -> dict[str, str]:
        contract = signed_contract(SEEKER_KEY)
        self._send("/contracts", {"contract": contract}, {}, 201)
        return {"X-Contract-ID": contract["contract_id"]}

    def _send(self, path: str, body: object, headers: Mapping[str, str], status: int) -> Mapping[str, str]:
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != status:
            raise BenchFailed(f"{path} answered {answer.status} and not {status}: {text[:500]!r}")
        return {name.lower(): value for name, value in answer.getheaders()}


@contextlib.contextmanager
def _door(endpoint: str, facilitator_url: str) -> Iterator[int]:
    deployed = {f"{PARAMETER_PREFIX}DeployWorkerDoor": "true"}
    with gateway(endpoint, "WorkerApi", {**deployed, **worker(facilitator_url)}) as port:
        yield port


@contextlib.contextmanager
def _seller(facilitator_url: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    command = (str(PYTHON), str(SELLER), str(port), facilitator_url, WORKER["WORKER_WALLETS"], PRICE)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_answers(f"http://127.0.0.1:{port}/health", process)
        yield port
    finally:
        stop(process)
