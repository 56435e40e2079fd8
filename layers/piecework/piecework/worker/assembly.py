"""The worker door put together from its ports; the composition root and the tests use the same one."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from piecework.clock import now_in_ms
from piecework.durable.due import DueTimes, Nudge
from piecework.durable.pieces import Overflow
from piecework.durable.renewal import Renewal
from piecework.durable.steps import StepTable
from piecework.extend.executors import Log
from piecework.extend.manifest import Bundle
from piecework.worker.answer.bodies import Bodies, no_stream
from piecework.worker.answer.deliverables import Deliverables
from piecework.worker.answer.outputs import INLINE_BYTES
from piecework.worker.answer.telling import Telling, Unheard
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import Chain
from piecework.worker.contract.contracts import ContractRecord, Contracts
from piecework.worker.door import BODY_BYTES
from piecework.worker.payment.cases import Cases
from piecework.worker.payment.charging import Charging
from piecework.worker.payment.counts import SettlementCounts
from piecework.worker.payment.facilitator import Facilitator, SupportedKinds
from piecework.worker.payment.released import Released
from piecework.worker.payment.verifying import Verifying
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution
from piecework.worker.record.executions import Executions
from piecework.worker.routes import HireRoutes
from piecework.worker.task.attempts import Attempts
from piecework.worker.task.bounding import in_thread
from piecework.worker.task.driving import Driving
from piecework.worker.task.flow import Hire, Standing
from piecework.worker.task.starting import Bounded, Starting
from piecework.worker.task.views import Views
from piecework.worker.task.work import Work


@dataclass(frozen=True)
class Ports:
    """Everything that the door needs from outside."""

    contracts: Contracts
    executions: Executions
    due_times: DueTimes
    files: Deliverables
    texts: Overflow
    steps: StepTable
    facilitator: Facilitator
    chain_of: Callable[[Network], Chain | None]
    enqueue: Callable[[Execution], None]
    nudge: Nudge
    announce: Callable[[Execution, ContractRecord, "Views"], None]
    bundle: Bundle
    log: Log
    counts: SettlementCounts
    clock: Callable[[], int] = now_in_ms
    bounded: Bounded = in_thread
    renewal: Callable[[Callable[[], None]], AbstractContextManager[object]] = Renewal
    telling: Telling = field(default_factory=Unheard)
    stream_url: Callable[[Execution], str | None] = no_stream
    count: Callable[[str], None] = lambda contract_id: None  # a request about a contract; raises RATE_LIMITED


@dataclass(frozen=True)
class Rules:
    """The settings that the flow looks at."""

    public_base_url: str | PublicUrl
    x402_v1: bool = True
    bind_payer: bool = True
    result_days: int = 7


@dataclass(frozen=True)
class Worker:
    """The parts that functions use."""

    routes: HireRoutes
    driving: Driving
    charging: Charging
    views: Views
    cases: Cases


def assemble(ports: Ports, rules: Rules, *, inline_bytes: int = INLINE_BYTES, body_bytes: int = BODY_BYTES) -> Worker:
    """Put the parts together."""
    cases = Cases(ports.bundle, rules.public_base_url)
    work = Work(
        files=ports.files,
        texts=ports.texts,
        steps=ports.steps,
        log=ports.log,
        clock=ports.clock,
        inline_bytes=inline_bytes,
        telling=ports.telling,
        record_item=lambda task, item: ports.executions.add_item(task.contract_id, task.lease.token, item),
    )
    charging = Charging(
        ports.executions, ports.facilitator, ports.chain_of, ports.clock, ports.nudge, ports.log, ports.counts
    )
    attempts = Attempts(
        ports.executions,
        work,
        charging,
        ports.clock,
        ports.enqueue,
        ports.log,
        renewal=ports.renewal,
        keeps_days=rules.result_days,
    )
    bodies = Bodies(rules.public_base_url, ports.files, ports.clock, ports.stream_url)
    views = Views(work, bodies, ports.clock, rules.x402_v1, rules.result_days)
    driving = _driving(ports, cases, attempts, charging, views)
    routes = _routes(ports, rules, cases, attempts, views, driving, body_bytes)
    return Worker(routes, driving, charging, views, cases)


def _driving(ports: Ports, cases: Cases, attempts: Attempts, charging: Charging, views: Views) -> Driving:
    def announce(execution: Execution, contract: ContractRecord) -> None:
        ports.announce(execution, contract, views)

    return Driving(
        contracts=ports.contracts,
        executions=ports.executions,
        cases=cases,
        attempts=attempts,
        charging=charging,
        released=Released(
            ports.contracts,
            ports.executions,
            ports.due_times,
            ports.chain_of,
            ports.clock,
            ports.log,
            ports.counts,
        ),
        due_times=ports.due_times,
        announce=announce,
        clock=ports.clock,
        log=ports.log,
    )


def _routes(
    ports: Ports, rules: Rules, cases: Cases, attempts: Attempts, views: Views, driving: Driving, body_bytes: int
) -> HireRoutes:
    kinds = SupportedKinds(ports.facilitator, sees=lambda network: ports.chain_of(network) is not None)
    standing = Standing(ports.executions, cases, attempts, driving.tell, ports.nudge, ports.clock, ports.log)
    verifying = Verifying(
        ports.executions,
        ports.facilitator,
        kinds,
        ports.clock,
        ports.log,
        ports.counts,
        rules.x402_v1,
        rules.bind_payer,
    )
    starting = Starting(
        executions=ports.executions,
        attempts=attempts,
        cases=cases,
        views=views,
        verifying=verifying,
        bounded=ports.bounded,
        current=standing.current,
        tell=driving.tell,
        clock=ports.clock,
        log=ports.log,
    )
    hire = Hire(ports.contracts, cases, standing, starting, views, kinds, ports.clock, ports.count)
    return HireRoutes(hire, ports.contracts, views, ports.clock, body_bytes)
