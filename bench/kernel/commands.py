"""Cost of the kernel door's commands over an embedded AWS: `python -m bench.kernel.commands OUT [EXECUTIONS]`.

Commands of executions with logs of three lengths take turns, so that a busy moment hits all of them. Everything runs in
this one process, without HTTP: the domain, its adapters and the emulator behind them are measured.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from bench.kernel import CREATORS, CROWDED
from bench.sent import Sent
from piecework.aws.clients import Clients
from piecework.aws.table import THE_KERNEL, Table
from piecework.kernel.clocks import new_id
from piecework.kernel.decide.command import decide_new
from piecework.kernel.model.changes import Change
from piecework.kernel.model.commands import Create, Intent
from piecework.kernel.model.events import Event
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.model.state import Execution, Status
from piecework.kernel.store.items import execution_item
from piecework.kernel.wiring import KernelDoor

LENGTHS: Final = (10, 1_000, 10_000)  # events in the log
ROUNDS: Final = 40
COMMANDS: Final = 4  # of a round
OWN: Final = ("invoke", "result")  # whose processor time is told, at these lengths of the log
OWN_LENGTHS: Final = (10, 1_000)
BATCH: Final = 100  # events that are written into a log at once
AGENTS: Final = 100
GIVEN: Final = 400  # executions that are assigned among the agents
WRITERS: Final = 8
CROWD: Final = 128  # executions that they create
LISTED: Final = 20_000
LISTS: Final = 5
PAGE: Final = 50
ITEMS_AT_ONCE: Final = 25
FAR_MS: Final = 3_600_000


def measure(listed: int) -> dict[str, float]:
    """All figures of the kernel door."""
    parts, sent = KernelDoor(), Sent()
    return commands(parts, sent) | assignments(parts) | crowds(parts, sent) | lists(parts, sent, listed)


@dataclass
class Running:
    """An execution with a log of some length, driven by its agent."""

    parts: KernelDoor
    id: str
    session: str
    took: dict[str, list[float]] = field(default_factory=dict)
    own: dict[str, list[float]] = field(default_factory=dict)  # processor time of this process
    requests: dict[str, int] = field(default_factory=dict)

    def round(self, sent: Sent) -> None:
        """One local call with its result, and one wait with its signal."""
        kernel, key = self.parts.kernel, new_id(self.parts.clock())
        call = Intent("invoke_tool", "notes.find", {"q": "vpn"}, True, idempotency_key=key)
        step = self._timed("invoke", sent, lambda: kernel.intent(self.id, self.session, call))["step_id"]
        self._timed("result", sent, lambda: kernel.step_result(self.id, self.session, step, True, {"n": 1}, ""))
        self._timed("wait", sent, lambda: kernel.intent(self.id, self.session, Intent("wait", signal_type="go")))
        self._timed("signal", sent, lambda: kernel.signal(self.id, "go", {"n": 1}))

    def _timed(self, name: str, sent: Sent, command: Callable[[], Any]) -> Any:
        sent.take()
        began, used = time.perf_counter(), time.process_time()
        answer = command()
        self.own.setdefault(name, []).append((time.process_time() - used) * 1000)
        self.took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        counts = sent.take()
        self.requests[name] = counts["dynamodb"] + counts["s3"]
        return answer


def commands(parts: KernelDoor, sent: Sent) -> dict[str, float]:
    """Milliseconds and requests per command, by the length of the log; and how much a long log costs more."""
    runs = {length: _running(parts, length) for length in LENGTHS}
    began = time.process_time()
    for _ in range(ROUNDS):
        for running in runs.values():
            running.round(sent)
    all_ = (time.process_time() - began) / (ROUNDS * len(LENGTHS) * COMMANDS)
    own = [used for length in OWN_LENGTHS for name in OWN for used in runs[length].own[name]]
    figures: dict[str, float] = {
        "kernel_command_cpu_ms": round(all_ * 1000, 2),
        "kernel_command_own_ms": round(median(own), 2),
    }
    for length, running in runs.items():
        for name, times in running.took.items():
            figures[f"kernel_{name}_at_{length}_p50_ms"] = round(median(times), 2)
            figures[f"kernel_{name}_at_{length}_p99_ms"] = round(quantiles(times, n=100)[98], 2)
    for name, count in runs[LENGTHS[0]].requests.items():
        figures[f"kernel_{name}_requests"] = count
    medians = {length: sum(median(times) for times in running.took.values()) for length, running in runs.items()}
    figures["kernel_commands_per_second"] = round(COMMANDS * 1_000 / medians[LENGTHS[0]], 1)
    figures["kernel_long_log_vs_short"] = round(medians[LENGTHS[-1]] / medians[LENGTHS[0]], 3)
    return figures


def assignments(parts: KernelDoor) -> dict[str, float]:
    """Executions a second that were created and given to one of many agents' consumers."""
    agents = [f"bench-agent-{number}" for number in range(AGENTS)]
    for agent in agents:
        parts.agents.connect(agent, "one", parts.clock() + FAR_MS)

    def give(number: int) -> float:
        began = time.perf_counter()
        view = parts.kernel.create(agents[number % AGENTS], {"n": number}, {})
        if view.execution.status is not Status.RUNNING:
            raise SystemExit("an execution was not assigned")
        return (time.perf_counter() - began) * 1000

    began = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as pool:
        times = list(pool.map(give, range(GIVEN)))
    rate = GIVEN / (time.perf_counter() - began)
    return {"kernel_assignments_per_second": round(rate, 1), "kernel_assignment_p50_ms": round(median(times), 1)}


def crowds(parts: KernelDoor, sent: Sent) -> dict[str, float]:
    """Requests of an execution, and how many a second, when many are created at once."""
    figures: dict[str, float] = {}
    for agents, ending in CROWDED.items():
        for creators in CREATORS:
            requests, rate = _lives(parts, sent, agents, creators)
            for name in (f"kernel_life_requests_of_{creators}", f"create_complete_requests_c{creators}"):
                figures[f"{name}{ending}"] = round(requests.total() / CROWD, 2)
            figures[f"kernel_create_requests_of_{creators}{ending}"] = round(requests["create"] / CROWD, 2)
            figures[f"kernel_lives_per_second_of_{creators}{ending}"] = round(rate, 1)
    return figures


def _lives(parts: KernelDoor, sent: Sent, agents: int, creators: int) -> tuple[Counter[str], float]:
    """Requests to create and to complete a crowd of executions, and executions a second."""
    names, requests = [f"bench-crowd-{creators}-{number}-of-{agents}" for number in range(agents)], Counter[str]()
    for agent in names:
        for consumer in ("one", "two"):
            parts.agents.connect(agent, consumer, parts.clock() + FAR_MS)
    with ThreadPoolExecutor(creators) as pool:
        sent.take()
        began = time.perf_counter()
        made = list(pool.map(partial(_created, parts, names), range(CROWD)))
        requests["create"] = sent.take()["dynamodb"]
        list(pool.map(partial(_complete, parts), made))
        rate = CROWD / (time.perf_counter() - began)
        requests["complete"] = sent.take()["dynamodb"]
    return requests, rate


def _created(parts: KernelDoor, agents: Sequence[str], number: int) -> Execution:
    return parts.kernel.create(agents[number % len(agents)], {"n": number}, {}).execution


def _complete(parts: KernelDoor, execution: Execution) -> None:
    if execution.session is None:
        raise SystemExit("an execution was not assigned")
    parts.kernel.intent(execution.id, execution.session.id, Intent("complete"))


def lists(parts: KernelDoor, sent: Sent, listed: int) -> dict[str, float]:
    """Milliseconds and requests for the first page of a list among so many executions."""
    client = Clients(os.environ).dynamodb
    table = Table(client, os.environ["PIECEWORK_KERNEL_TABLE"], THE_KERNEL)
    items = (execution_item(execution, "bench") for execution in _many(listed, parts))
    while batch := list(islice(items, ITEMS_AT_ONCE)):
        table.put_all(batch)
    asked = {
        "all": Filter(),
        "by_agent": Filter(agent_id="listed-7"),
        "by_status": Filter(status=Status.BLOCKED),
        "by_agent_and_label": Filter(agent_id="listed-7", labels={"tenth": "3"}),
    }
    figures: dict[str, float] = {"kernel_listed_executions": listed}
    for name, which in asked.items():
        times: list[float] = []
        sent.take()
        for _ in range(LISTS):
            began = time.perf_counter()
            parts.kernel.executions(which, "", PAGE)
            times.append((time.perf_counter() - began) * 1000)
        figures[f"kernel_list_{name}_ms"] = round(median(times), 1)
        figures[f"kernel_list_{name}_requests"] = sent.take()["dynamodb"] / LISTS
    return figures


def _running(parts: KernelDoor, length: int) -> Running:
    agent = f"bench-log-{length}"
    parts.agents.connect(agent, "one", parts.clock() + FAR_MS)
    execution = parts.kernel.create(agent, None, {}).execution
    if execution.session is None:
        raise SystemExit("an execution was not assigned")
    for _ in range(0, length, BATCH):
        execution = _longer(parts, execution, min(BATCH, length))
    return Running(parts, execution.id, execution.session.id if execution.session else "")


def _longer(parts: KernelDoor, execution: Execution, more: int) -> Execution:
    now = parts.clock()
    numbers = range(execution.sequence + 1, execution.sequence + 1 + more)
    payload = {"signal_type": "noise", "payload": {"text": "x" * 100}}
    events = tuple(
        Event(new_id(now), execution.id, number, "signal.received", now, payload, new_id(now), new_id(now))
        for number in numbers
    )
    after = replace(execution, version=execution.version + 1, sequence=execution.sequence + more, clock_ms=now)
    parts.executions.commit(Change(execution, after, events))
    return after


def _many(count: int, parts: KernelDoor) -> Iterator[Execution]:
    now, statuses = parts.clock(), (Status.COMPLETED, Status.RUNNING, Status.BLOCKED)
    for number in range(count):
        create = Create(new_id(now - number), f"listed-{number % 100}", None, {"tenth": str(number % 10)})
        change = decide_new(create, now - number, parts.settings, new_id).change
        if change:
            yield replace(change.after, status=statuses[number % len(statuses)])


if __name__ == "__main__":
    figures = measure(int(sys.argv[2]) if len(sys.argv) > 2 else LISTED)
    Path(sys.argv[1]).write_text(json.dumps(figures), "utf-8")
