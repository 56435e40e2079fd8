"""The whole worker door in one process: real parts over fakes or the embedded AWS, and a stub facilitator over HTTP.

stage = Stage(facilitator)
contract = stage.contract()
answer = stage.post(contract, {"brief": "b"}, stage.pay(contract))
stage.settle_down()          # queue messages and due times, until nothing is left to do now
"""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Protocol, TypedDict

from local.facilitator.ledger import Ledger
from local.facilitator.server import StubFacilitator
from piecework.durable.due import Due, DueTimes
from piecework.durable.pauses import Admission
from piecework.durable.pieces import Overflow
from piecework.durable.steps import StepTable
from piecework.extend.executors import Executor, Outcome, Run, Task
from piecework.extend.manifest import Bundle, Entry, Manifest
from piecework.jsons import Json
from piecework.webhooks.deliveries import Try
from piecework.worker.answer.deliverables import Deliverables, Link
from piecework.worker.answer.partial_output import Listener
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain, RpcChain
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.door import serve
from piecework.worker.payment.cases import Case
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.facilitator import Facilitator, HttpFacilitator
from piecework.worker.payment.terms import PaymentTerms
from piecework.worker.record.execution import RELEASED_DUE, TASK_DUE, WEBHOOK_DUE, Execution
from piecework.worker.record.executions import Executions
from piecework.worker.record.states import State
from piecework.worker.settings import WorkerSettings
from piecework.worker.stream.streams import StreamLog
from piecework.worker.task.bounding import in_thread
from piecework.worker.wiring import WorkerDoor
from tests.support.fakes import START_MS, FakeClock, FakeOverflow, FakePieceTable, no_renewal
from tests.support.quiet import QuietLog
from tests.support.worker.contracts import WORKER_AGENT_ID, a_record
from tests.support.worker.door_fakes import FakeDueTimes, FakeExecutions
from tests.support.worker.fakes import FakeContracts
from tests.support.worker.payments import header, signed_payload

BASE = "https://w.example/hire"
BODY = {"brief": "b"}
FUNCTION_MS = 900_000
HANDLED = 40


class OwnRate(Protocol):
    """Counts a request about a contract that is here."""

    def known(self, contract_id: str) -> None: ...


class Ports(TypedDict, total=False):
    """Parts of the worker door that a test puts in place of the stage's own."""

    contracts: Contracts
    executions: Executions
    due_times: DueTimes
    files: Deliverables
    texts: Overflow
    steps: StepTable
    stream_log: StreamLog
    facilitator: Facilitator
    chain_of: Callable[[Network], Chain | None]
    enqueue: Callable[[Execution], None]
    nudge: Callable[[Due, int], None]
    announce: Callable[[Execution, ContractRecord], None]
    ask_webhook: Callable[[Try, int], None]
    bounded: Callable[[Callable[[], None], float], None]
    renewal: Callable[[Callable[[], None]], AbstractContextManager[object]]
    listener: Listener
    rates: OwnRate
    counts: SettlementCounts
    _admission: Admission | None


class Rules(TypedDict, total=False):
    """Settings of the worker that a test changes."""

    result_days: int


@dataclass
class FakeFiles:
    """Deliverables in a dictionary; every link is a new one."""

    clock: Callable[[], int]
    objects: dict[str, tuple[bytes, str, str]] = field(default_factory=dict)
    links: int = 0

    def put(self, key: str, data: bytes, sha256: bytes, mime: str, disposition: str) -> None:
        assert hashlib.sha256(data).digest() == sha256
        self.objects.setdefault(key, (data, mime, disposition))

    def link(self, key: str) -> Link:
        self.links += 1
        return Link(f"https://files.example/{key}?X-Amz-Signature={self.links}", self.clock() + 3_600_000)

    def exists(self, key: str) -> bool:
        return key in self.objects


class NoListener(Listener):
    """Hears nothing."""


class StageBundle(Bundle):
    """Executors `probe` (short, the default), `slow` (long) and `upfront` (paid before the work), less some."""

    def __init__(
        self, function: Callable[[Task, Run], Outcome], default: str = "probe", without: tuple[str, ...] = ()
    ) -> None:
        made = [
            Executor("probe", function, ("hire",), {"default": {}}, 500, 10_000, "after", False),
            Executor("slow", function, ("hire",), {"default": {}}, 60_000, 120_000, "after", True),
            Executor("upfront", function, ("hire",), {"default": {}}, 500, 10_000, "before", False),
        ]
        made = [one for one in made if one.name not in without]
        super().__init__(Manifest(tuple(Entry(one.name, "", ("hire",), ("default",)) for one in made)), made[0].name)
        self.default = default
        self.__dict__["made"] = {one.name: one for one in made}

    def named(self, name: str) -> Executor:
        return self.__dict__["made"][name]


@dataclass
class Told:
    """An answer as a client sees it."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Json:
        return json.loads(self.text)

    @property
    def receipt(self) -> Json:
        value = self.headers.get("PAYMENT-RESPONSE") or self.headers.get("X-PAYMENT-RESPONSE")
        return json.loads(base64.b64decode(value)) if value else None


@dataclass
class Telemetry:
    lines: list[tuple[str, dict[str, Json], dict[str, int]]] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)

    def outcome(self, name: str, facts: Mapping[str, Json], counts: Mapping[str, int]) -> None:
        self.lines.append((name, dict(facts), dict(counts)))

    def bug(self, name: str) -> None:
        import traceback

        self.bugs.append(traceback.format_exc())


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 28_000


def score(task: Task, run: Run) -> Outcome:
    """What the executors do unless told otherwise: a score, and a file."""
    run.artifact("plan.txt", b"the plan", "text/plain")
    return Outcome({"score": 7, "nonce": secrets.token_hex(8)})


class Stage:
    """One worker with its own stores; `others` are further processes over the same ones."""

    def __init__(
        self,
        facilitator: StubFacilitator,
        *,
        clock: FakeClock | None = None,
        with_chain: bool = True,
        ports: Ports | None = None,
        rules: Rules | None = None,
        inline: bool = True,
        default: str = "probe",
        without: tuple[str, ...] = (),
    ) -> None:
        self.clock = clock or FakeClock(START_MS)
        self.stub = facilitator
        self.usual = {} if with_chain else {"terms__price__network": "base-sepolia"}  # real money needs a node
        facilitator.ledger.clock = lambda: self.clock() / 1000
        self.log, self.telemetry = QuietLog(), Telemetry()
        self.counted = self.log.counted
        self.do: Callable[[Task, Run], Outcome] = score
        self.runs: list[str] = []
        self.lock = threading.Lock()
        self.queue: list[str] = []
        self.nudges: list[tuple[Due, int]] = []
        self.announced: list[tuple[Execution, Json]] = []
        given: Ports = ports or {}
        own_due = FakeDueTimes()
        self.contracts: Contracts = given.get("contracts") or FakeContracts(self.clock)
        self.executions: Executions = given.get("executions") or FakeExecutions(own_due)
        self.due: DueTimes = given.get("due_times") or own_due
        self.files: Deliverables = given.get("files") or FakeFiles(self.clock)
        chain = RpcChain(facilitator.rpc_url) if with_chain else None
        defaults: dict[str, object] = {
            "texts": FakeOverflow(),
            "steps": FakePieceTable(self.clock),
            "facilitator": HttpFacilitator(facilitator.url),
            "chain_of": lambda network: chain,
            "enqueue": lambda execution: self.queue.append(execution.contract_id),
            "nudge": lambda due, delay_ms: self.nudges.append((due, delay_ms)),
            "announce": self._announce,
            "bounded": in_thread if inline else (lambda work, seconds: work()),
            "renewal": no_renewal,
            "listener": NoListener(),
            "rates": SimpleNamespace(known=lambda contract_id: None),
        }
        self.worker = WorkerDoor({})
        vars(self.worker).update(
            {
                **defaults,
                **given,
                "settings": WorkerSettings(BASE, (), WORKER_AGENT_ID, **(rules or {})),
                "contracts": self.contracts,
                "executions": self.executions,
                "due_times": self.due,
                "files": self.files,
                "bundle": StageBundle(self._run, default, without),
                "telemetry": self.log,
                "clock": self.clock,
            }
        )
        confirming = self.worker.charging.confirming
        confirming.__dict__["pause"] = lambda seconds: None  # the clock here stands still while a node is asked again

    @property
    def function_ms(self) -> int:
        """How long one run of the task function may take."""
        return FUNCTION_MS

    def _run(self, task: Task, run: Run) -> Outcome:
        with self.lock:
            self.runs.append(task.execution_id)
        return self.do(task, run)

    def _announce(self, execution: Execution, contract: ContractRecord) -> None:
        self.announced.append((execution, self.worker.views.recorded(execution, contract).body))

    def contract(self, executor: str = "probe", **changes: Json) -> ContractRecord:
        """A registered contract of its own."""
        requirements = {} if executor == "probe" else {"task__requirements": [executor]}
        record = a_record(self.clock(), **{**self.usual, **requirements, **changes})
        self.contracts.put(record)
        return record

    @property
    def base(self) -> str:
        """The door's own address."""
        return BASE

    def is_free(self, contract: ContractRecord) -> bool:
        """Whether nobody has claimed it."""
        return self.executions.read(contract.contract_id) is None

    def ran(self, times: int) -> None:
        """The executor ran so often."""
        assert len(self.runs) == times

    def terms(self, contract: ContractRecord) -> PaymentTerms:
        return self.worker.cases.quote(contract).terms

    def payload(self, contract: ContractRecord, **changes: Json) -> dict[str, Json]:
        given = {"nonce": "0x" + secrets.token_hex(32), "now": self.clock() // 1000, **changes}
        return signed_payload(self.terms(contract), **given)

    def pay(self, contract: ContractRecord, **changes: Json) -> dict[str, list[str]]:
        """The header of a fresh payment."""
        name = "X-PAYMENT" if changes.get("version") == 1 else "PAYMENT-SIGNATURE"
        return {name: [header(self.payload(contract, **changes))]}

    def post(
        self, contract: ContractRecord | str, body: Json = BODY, *headers: dict[str, list[str]], **more: Json
    ) -> Told:
        """POST /execute as the edge hands it on."""
        name = contract if isinstance(contract, str) else contract.contract_id
        merged: dict[str, list[str]] = {"X-Contract-ID": [name], "Content-Type": ["application/json"]}
        for given in headers:
            merged |= given
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send("POST", "/execute", "/execute", None, merged, raw, **more)

    def get(self, contract: ContractRecord | str | None, task_id: str) -> Told:
        """GET /tasks/{task_id}."""
        name = contract.contract_id if isinstance(contract, ContractRecord) else contract
        headers = {"X-Contract-ID": [name]} if name else {}
        return self._send("GET", "/tasks/{task_id}", f"/tasks/{task_id}", {"task_id": task_id}, headers, b"")

    def _send(
        self,
        method: str,
        resource: str,
        path: str,
        params: dict[str, str] | None,
        headers: dict[str, list[str]],
        raw: bytes,
    ) -> Told:
        event = {
            "httpMethod": method,
            "resource": resource,
            "path": path,
            "pathParameters": params,
            "multiValueHeaders": headers,
            "requestContext": {"identity": {"sourceIp": "127.0.0.1"}},
            "body": base64.b64encode(raw).decode(),
            "isBase64Encoded": True,
        }
        routes = self.worker.routes
        respond = {"/execute": routes.execute, "/tasks/{task_id}": routes.task}[resource]
        answer = serve("hire", respond, event, Context(), self.telemetry)
        assert self.telemetry.bugs == []
        return Told(answer["statusCode"], answer["headers"], answer["body"])

    def standing(self, contract: ContractRecord) -> Execution:
        found = self.executions.read(contract.contract_id)
        assert found is not None
        return found

    def case(self, contract: ContractRecord) -> Case:
        return self.worker.cases.of(contract, self.standing(contract))

    def state(self, contract: ContractRecord) -> State:
        return self.standing(contract).state

    def work_off(self) -> int:
        """Handle the queue's messages; nudges count once their delay is over."""
        handled = 0
        while self.queue:
            self.worker.resume.drive(self.queue.pop(0), self.clock() + self.function_ms)
            handled += 1
        return handled

    def sweep(self) -> int:
        """What the schedule does each minute."""
        ripe = [due for kind in (TASK_DUE, WEBHOOK_DUE, RELEASED_DUE) for due in self.due.ripe(kind, self.clock())]
        for due in ripe:
            self.worker.resume.fire(due, self.clock() + FUNCTION_MS)
        return len(ripe)

    def settle_down(self, seconds: float = 0) -> None:
        """Let time pass in minutes, with everything that a running deployment would do meanwhile."""
        ends = self.clock() + int(seconds * 1000)
        while True:
            self.work_off()
            self.sweep()
            self.work_off()
            if self.clock() >= ends:
                return
            self.clock.now_ms = min(ends, self.clock() + 60_000)

    def settles(self, contract: ContractRecord | None = None) -> int:
        return self.stub.count("settle")

    def charges(self) -> int:
        """How often money moved: the facilitator's truth."""
        return len(self.stub.ledger.charges())


@contextmanager
def stub_facilitator() -> Iterator[StubFacilitator]:
    """A stub on a free port with a chain of its own."""
    with StubFacilitator(ledger=Ledger()) as stub:
        yield stub
