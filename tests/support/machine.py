"""The local machine as tests use it: one embedded AWS per session, gateways of real processes over it.

def test_something(gateway):
    runtime = gateway()                                   # shared by all tests that ask for the same variables
    assert runtime.http.get("/health").status_code == 200

def test_after_a_crash(gateway):
    runtime = gateway(fresh=True, PIECEWORK_PARAM_ExecuteTimeoutMs="45000")
    runtime.kill("runtime.execute.app.handler")
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest

from local import aws
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.pool import AHEAD
from local.gateway.lambdas.recording import RECORD_AWS_CALLS
from local.gateway.lambdas.variables import ROOT
from local.template import REGION, Template
from piecework.aws.clients import Clients
from tests.support import aws_calls

EXECUTORS = Path(__file__).parent / "executors"
PARAMETER = "PIECEWORK_PARAM_"
DEFAULTS = dict.fromkeys((f"{PARAMETER}DefaultExecutor", f"{PARAMETER}WorkerDefaultExecutor"), "echo")
START_SECONDS = 30
HTTP_SECONDS = 60
LISTENS = re.compile(r"listens on (http://\S+)")


class Wider:
    """A client of the product, and behind it one that knows every operation."""

    def __init__(self, own: Any, other: Any) -> None:
        self._own, self._other = own, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name, None) or getattr(self._other, name)


@dataclass(frozen=True)
class Aws:
    """An embedded AWS with the bundle's table and bucket."""

    endpoint: str
    template: Template

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            **aws.CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    @cached_property
    def clients(self) -> Clients:
        """The product's own clients, as a function has them."""
        return Clients(self.variables)

    def client(self, service: str) -> Any:
        """The product's client where it has one, with boto3's for what it cannot do."""
        own: Any = getattr(self.clients, service) if service in ("dynamodb", "s3", "sqs") else None
        return Wider(own, self.boto3(service))

    @cached_property
    def _of_boto3(self) -> dict[str, Any]:
        return {}

    def boto3(self, service: str) -> Any:
        """boto3's client, whose answers have every member; one for all who ask, because making it takes 15 ms."""
        if service not in self._of_boto3:
            self._of_boto3[service] = aws.client(service, self.endpoint, self.variables)
        return self._of_boto3[service]

    def new_table(self, logical: str = "ResultsTable") -> str:
        """An empty table of its own, in the shape the template gives one.

        Nothing lapses in it by itself: the emulator goes by the real clock, and clocks of tests stand in the past.
        """
        name = f"{logical}-{uuid.uuid4().hex}"
        shape = self.template.of_type("AWS::DynamoDB::Table")[logical]
        lasting = {key: value for key, value in shape.items() if key != "TimeToLiveSpecification"}
        aws.create_table(self.client("dynamodb"), name, lasting)
        return name

    def new_bucket(self) -> str:
        """An empty bucket of its own."""
        name = f"bucket-{uuid.uuid4().hex}"
        self.client("s3").create_bucket(Bucket=name)
        return name


@dataclass
class RunningGateway:
    """One gateway process and what it runs."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    runs_file: Path

    @cached_property
    def http(self) -> httpx.Client:
        # Without TLS there is no certificate to check, and reading those of the authorities takes 35 ms.
        return httpx.Client(base_url=self.url, timeout=HTTP_SECONDS, trust_env=False, verify=False)

    def pids(self, handler: str) -> list[int]:
        """The processes of one function, by its handler, such as `runtime.execute.app.handler`."""
        return [pid for pid, line in children(self.process.pid) if handler in line]

    def kill(self, handler: str) -> int:
        """Kill every process of one function, as a crash would; returns how many there were."""
        pids = self.pids(handler)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def runs(self, execution_id: str) -> int:
        """How often the nonce executor was started for an execution."""
        lines = self.runs_file.read_text().splitlines() if self.runs_file.exists() else []
        return sum(line.rpartition(" ")[0] == execution_id.encode().hex() for line in lines)

    def logged(self) -> str:
        """Everything the gateway and its functions have written."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        self.http.close()
        aws.stop(self.process)


def children(parent: int) -> list[tuple[int, str]]:
    """Process ids and command lines of a process's children."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append((int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
    return found


def wait_until(true: Any, seconds: float = START_SECONDS) -> None:
    """Wait until a condition holds; fails the test when it does not in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def free_base() -> int:
    """The first of ten ports in a row that nobody listens on, below those that the system hands out by itself."""
    for _ in range(100):
        base = random.randrange(20_000, 32_000, 10)
        try:
            with contextlib.ExitStack() as held:
                for port in range(base, base + 10):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        return base
    raise AssertionError("no ten free ports in a row")


@dataclass
class Gateways:
    """Starts gateways, and hands out running ones again to those who want the same."""

    aws: Aws
    folder: Path
    _shared: dict[tuple[object, ...], RunningGateway] = field(default_factory=dict)
    _all: list[RunningGateway] = field(default_factory=list)

    def __call__(
        self,
        *,
        api: str = "RuntimeApi",
        template: Path = ROOT / "template.yaml",
        fresh: bool = False,
        **variables: str | None,
    ) -> RunningGateway:
        key = (api, template, *sorted(variables.items()))
        if fresh or key not in self._shared:
            started = self.start(api, template, variables)
            if fresh:
                return started
            self._shared[key] = started
        return self._shared[key]

    def start(self, api: str, template: Path, variables: dict[str, str | None]) -> RunningGateway:
        """Start a gateway process on a free port; it does not see the developer's own settings, nor what is None."""
        name = uuid.uuid4().hex
        log, runs_file = self.folder / f"{name}.log", self.folder / f"{name}.runs"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PIECEWORK_"))}
        own = {"PIECEWORK_EXECUTORS_PATH": str(EXECUTORS), "TEST_RUNS": str(runs_file)}
        text = template.read_text("utf-8")
        own |= {name: value for name, value in DEFAULTS.items() if f"\n  {name.removeprefix(PARAMETER)}:\n" in text}
        if template == ROOT / "template.yaml":
            own[RECORD_AWS_CALLS] = str(aws_calls.folder())
            own[AHEAD] = "0"  # most tests ask one function of six
        given = {name: value for name, value in {**own, **variables}.items() if value is not None}
        command = (sys.executable, "-m", "local.gateway", "--api", api, "--port", "0", "--template", str(template))
        with log.open("wb") as out:
            process = subprocess.Popen(
                dying_with_parent("exec", *command),
                env={**kept, **self.aws.variables, **given},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        wait_until(lambda: process.poll() is not None or LISTENS.search(log.read_text(errors="replace")))
        listens = LISTENS.search(log.read_text(errors="replace"))
        assert listens, log.read_text(errors="replace")
        running = RunningGateway(process, listens[1], log, Path(given["TEST_RUNS"]))
        self._all.append(running)
        return running

    def close(self) -> None:
        for running in self._all:
            running.close()


@pytest.fixture(scope="session")
def embedded_aws() -> Iterator[Aws]:
    """An embedded AWS on a free port, with the template's table and bucket; made once per session."""
    template = Template.load(ROOT / "template.yaml", {"DeployWorkerDoor": "true", "DeployKernelDoor": "true"})
    with aws.embedded_aws() as endpoint:
        aws.provision(template, endpoint)
        yield Aws(endpoint, template)


@pytest.fixture(scope="session")
def gateways(embedded_aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """Every gateway of the session; ended with it."""
    made = Gateways(embedded_aws, tmp_path_factory.mktemp("gateways"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def gateway(gateways: Gateways) -> Gateways:
    """A factory of gateways: same variables, same process, unless `fresh=True`."""
    return gateways


@pytest.fixture(scope="module")
def own_gateway(embedded_aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    """A factory of gateways over an embedded AWS of the module's own: nobody else's take messages from its queues."""
    with aws.embedded_aws() as endpoint:
        aws.provision(embedded_aws.template, endpoint)
        made = Gateways(Aws(endpoint, embedded_aws.template), tmp_path_factory.mktemp("own"))
        yield made
        made.close()


@pytest.fixture(scope="session")
def two_gateways(gateways: Gateways) -> tuple[RunningGateway, RunningGateway]:
    """Two gateway processes over one embedded AWS, which count runs of the nonce executor in one file."""
    runs = str(gateways.folder / "two.runs")
    return gateways(TEST_RUNS=runs), gateways(fresh=True, TEST_RUNS=runs)
