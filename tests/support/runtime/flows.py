"""The execute flow over fakes, with one executor of the test's own."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from piecework.durable.pieces import Pieces
from piecework.extend.executors import Executor, Outcome, Run, Task
from piecework.extend.manifest import Bundle, Entry, Manifest
from piecework.runtime.execute.flow import Execute, Executed
from tests.support.fakes import FakeClock, FakeEvidence, FakeOverflow, FakePieceTable, no_renewal
from tests.support.quiet import QuietLog

SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


class OneExecutor(Bundle):
    """A bundle of the one executor under test."""

    def __init__(self, function: Callable[[Task, Run], Any], **options: Any) -> None:
        super().__init__(Manifest((Entry("probe", "", ("swarm",), ("default",)),)), "probe")
        settings = {"expected_ms": 1_000, "max_duration_ms": 60_000, "settle": "after", "long": False, **options}
        self.__dict__["probe"] = Executor("probe", function, ("swarm",), {"default": {}}, **settings)

    def serving(self, task_type: str) -> Executor:
        return self.__dict__["probe"]


class FlowBench:
    """One executor behind the execute flow, with all stores in memory."""

    def __init__(self, function: Callable[[Task, Run], Any], **options: Any) -> None:
        self.clock, self.log, self.evidence = FakeClock(), QuietLog(), FakeEvidence()
        self.table = FakePieceTable(self.clock)
        self.tasks: list[Task] = []

        def watched(task: Task, run: Run) -> Any:
            self.tasks.append(task)
            return function(task, run)

        self.pieces = Pieces(
            self.table, FakeOverflow(), clock=self.clock, sleep=self.clock.sleep, renewal=no_renewal, ttl_seconds=3600
        )
        self.flow = Execute(
            bundle=OneExecutor(watched, **options),
            pieces=self.pieces,
            steps=self.table,
            evidence=self.evidence,
            producer="family",
            clock=self.clock,
            expires_at=lambda: self.clock() // 1000 + 3600,
            log=self.log,
        )
        self.execution_id = f"exec-{uuid4().hex}"

    def body(self, **changes: Any) -> dict[str, Any]:
        contract = {"output_schema": changes.pop("schema", SCHEMA), **changes.pop("contract", {})}
        ids = {"task_id": "t", "execution_id": self.execution_id, "attempt_id": "a"}
        rest = {"task_type": "swarm", "inputs": {"prompt": "p"}, "profile": "default", "stage": "explore"}
        return {**ids, **rest, "task_contract": contract, **changes}

    def execute(self, seconds: float = 25.0, caller: str = "c", **changes: Any) -> Executed:
        until_ms = self.clock() + int(seconds * 1000)
        return self.flow.execute(
            self.body(**changes), caller=caller, until_ms=until_ms, public_url="https://rt.example", trace_id="Root=x"
        )


def answering(output: Any = None) -> Callable[[Task, Run], Outcome]:
    """An executor that always gives this output."""
    return lambda task, run: Outcome({"answer": "x"} if output is None else output)
