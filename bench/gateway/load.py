"""The local gateway's rate in requests a second: fresh pieces through real processes and the embedded AWS."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from bench.contenders import EXECUTE, event, fresh
from bench.figures import Samples
from bench.processes import cpu_ms
from bench.worker.hiring import EXECUTOR
from local.aws import CREDENTIALS, stop, wait_until_answers
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import PARAMETER_PREFIX, ROOT
from local.template import REGION

CLIENTS: Final = 4
FEW: Final = 8
CROWD: Final = 200
ROUNDS: Final = 5
SMALL: Final = "/capabilities"
SMALL_ANSWERS: Final = 200
TIMEOUT_SECONDS: Final = 60
HEADERS: Final = {"Content-Type": "application/json"}
NOTHING: Final[Mapping[str, str]] = {}


def measure(endpoint: str, seconds: float) -> Samples:
    """Answers per second by path and number of clients, and what a small answer costs the gateway's own process."""
    asked = {
        "gateway_requests_per_second": ("/execute", CLIENTS),
        "gateway_capabilities_per_second": ("/capabilities", CLIENTS),
        "gateway_few_per_second": ("/execute", FEW),
        "gateway_crowd_per_second": ("/execute", CROWD),
    }
    found: dict[str, list[float]] = {"gateway_own_ms": [], **{name: [] for name in asked}}
    with _process(endpoint, "RuntimeApi", NOTHING) as (port, pid):
        for _ in range(ROUNDS):
            found["gateway_own_ms"].append(own_ms(port, pid))
            for name, (path, clients) in asked.items():
                found[name].append(rate(port, path, seconds, clients))
    return found


def own_ms(port: int, pid: int) -> float:
    """Processor time that the gateway's process uses for a small answer; a function's process makes the answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)) as connection:
        ask(connection, SMALL)
        before = cpu_ms(pid)
        for _ in range(SMALL_ANSWERS):
            ask(connection, SMALL)
        return (cpu_ms(pid) - before) / SMALL_ANSWERS


@contextlib.contextmanager
def gateway(endpoint: str, api: str = "RuntimeApi", variables: Mapping[str, str] = NOTHING) -> Iterator[int]:
    """A door on a free port; yields the port."""
    with _process(endpoint, api, variables) as (port, _):
        yield port


@contextlib.contextmanager
def _process(endpoint: str, api: str, variables: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """A door's port and process id."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PIECEWORK_"))}
    aws = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    command = dying_with_parent("exec", sys.executable, "-m", "local.gateway", "--api", api, "--port", str(port))
    chosen = {f"{PARAMETER_PREFIX}DefaultExecutor": EXECUTOR, f"{PARAMETER_PREFIX}WorkerDefaultExecutor": EXECUTOR}
    process = subprocess.Popen(
        command,
        env={**kept, **aws, **chosen, **variables},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_answers(f"http://127.0.0.1:{port}/health", process)
        yield port, process.pid
    finally:
        stop(process)


def rate(port: int, path: str, seconds: float, clients: int = CLIENTS) -> float:
    """Answers per second to clients that each wait for their answer; their first requests only warm up."""
    ready = threading.Barrier(clients)
    answered: list[float] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        ask(connection, path)
        ready.wait()
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            ask(connection, path)
            count += 1
        answered.append(count / (time.perf_counter() - began))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(answered) < clients:
        raise RuntimeError(f"{path} did not answer every client")
    return sum(answered)


def ask(connection: http.client.HTTPConnection, path: str) -> None:
    """Send one request and read its answer.

    Raises:
        RuntimeError: the answer is not a success.
    """
    body = fresh(event(EXECUTE))["body"] if path == "/execute" else None
    connection.request("POST" if body else "GET", path, body, HEADERS)
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path} answered {response.status}: {json.dumps(text.decode('utf-8', 'replace')[:500])}")
