"""Doing the hired work: one attempt by one executor, and what its end means for the contract.

An attempt ends as `Made` (a checked result, its files stored), or as `Ended` with a failure that is final, or one that
leaves the seeker another attempt. Steps that were recorded are replayed when an interrupted attempt runs again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from piecework.clock import now_in_ms
from piecework.durable.pieces import INLINE_LIMIT, Claim, Overflow, State, piece_key
from piecework.durable.steps import ListedSteps, ListedStepTable
from piecework.errors import PieceworkError, RequestRejected
from piecework.extend.executors import Artifact, Executor, Log, Outcome, Run, Steps, Task
from piecework.extend.faults import fault_of
from piecework.extend.right import Right, Unleased
from piecework.jsons import Json, canonical, loads
from piecework.values import dataclass
from piecework.worker.answer.deliverables import Deliverables, store_files
from piecework.worker.answer.failures import (
    Ended,
    ended_by,
    ended_by_bug,
    ended_by_output,
    ended_by_store,
    ended_by_undeployed,
)
from piecework.worker.answer.outputs import INLINE_BYTES, Output, OutputRefused, output_of, problem_of
from piecework.worker.answer.partial_output import Listener, PartialOutput
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.payment.cases import Case
from piecework.worker.record.execution import Execution
from piecework.worker.record.values import Failure, Item, Kept, TaskOutcome
from piecework.worker.task.chained_steps import ChainedSteps

STEP_DAYS: Final = 2  # a task lives a day
CHECK_SECONDS: Final = 0.25  # no check of an output takes longer: its steps are bounded


@dataclass(frozen=True, slots=True)
class Made:
    """A result that may be delivered."""

    outcome: TaskOutcome
    items: tuple[Item, ...] = ()  # shown before the end


class Work:
    """Runs attempts; everything it needs besides the record."""

    def __init__(
        self,
        *,
        files: Deliverables,
        texts: Overflow,
        steps: ListedStepTable,
        log: Log,
        listener: Listener,
        record_item: Callable[[Execution, Item], None],
        clock: Callable[[], int] = now_in_ms,
        inline_bytes: int = INLINE_BYTES,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._files = files
        self._texts = texts
        self._steps = steps
        self._log = log
        self._clock = clock
        self._inline_bytes = inline_bytes
        self._listener = listener
        self._record_item = record_item
        self._pause = pause

    def keep(self, pointer: str, value: Json) -> Kept:
        """Keep a JSON value: in the record while it is small, else in the bucket under `pointer`."""
        raw = canonical(value)
        if len(raw) <= INLINE_LIMIT:
            return Kept(raw.decode())
        self._texts.put(pointer, raw)
        return Kept(pointer=pointer)

    def item(self, item: Item) -> Item:
        """An item with what it holds."""
        if "pointer" not in item:
            return item
        return {"type": item["type"], "content": loads(self._texts.get(item["pointer"]))}

    def kept(self, kept: Kept) -> Json:
        """The value that was kept."""
        return loads(kept.text if kept.pointer is None else self._texts.get(kept.pointer))  # type: ignore[arg-type]

    def run(
        self,
        case: Case,
        until_ms: int,
        is_fresh: bool,
        is_chained: bool = False,
        right: Right | None = None,
    ) -> Made | Ended:
        """Run one attempt to its end, or with `is_chained` as far as the time until `until_ms` reaches.

        Raises:
            HandedOver: the attempt goes on in another run.
            RightLost: another runner has it.
            PieceworkError: a store is out of reach; the attempt was interrupted, not ended.
        """
        contract, execution, executor = case.contract, case.execution, case.executor
        if executor is None:
            return ended_by_undeployed()
        began_ms = self._clock()
        ends_ms = min(until_ms, execution.ends_at_ms, began_ms + executor.max_duration_ms)
        inputs = self.kept(execution.input)
        folder = f"{execution.contract_id}/{execution.task_id}/g{execution.generation}/{execution.lease.token}"
        told = PartialOutput(execution, folder, self._files, self._texts, self._record_item, self._listener, self._log)
        right = right or Unleased()
        steps: Steps = self._steps_of(execution, is_fresh, right)
        if is_chained:
            steps = ChainedSteps(steps, lambda: until_ms - self._clock())
        run = self._run_of(steps, ends_ms, told, right)
        outcome = self._attempt(execution, executor, _task(contract, execution, executor, inputs, ends_ms), run)
        if isinstance(outcome, Ended):
            return outcome
        if outcome.is_partial and not contract.accept_partial:
            return Ended(
                Failure("EXECUTION_FAILED", "only a part could be done, which the contract does not accept"), True
            )
        output = self._checked(contract, execution, outcome, [*run.collected_artifacts, *outcome.deliverables])
        if isinstance(output, Ended):
            return output
        right.check()
        kept = self._stored(execution, folder, output, told)
        if isinstance(kept, Ended):
            return kept
        model = str(run.facts.get("model", executor.name))
        worked_ms = self._clock() - (execution.attempt.started_at_ms or began_ms)
        return Made(TaskOutcome(kept, worked_ms, model, outcome.is_partial), tuple(told.items))

    def _stored(self, execution: Execution, folder: str, output: Output, told: PartialOutput) -> Kept | Ended:
        """The result with its files; what the stores refuse for good ends the attempt, since each try would work anew.

        Raises:
            Unavailable: a store is out of reach.
        """
        try:
            files = store_files(self._files, f"deliverables/{folder}", output.files, self._log, told.stored)
            return self.keep(f"work/{folder}/result", output.stored(files))
        except RequestRejected as error:
            self._log.warning("result_not_stored", **_ids(execution), reason=error.message)
            return ended_by_store()

    def _attempt(self, execution: Execution, executor: Executor, task: Task, run: Run) -> Outcome | Ended:
        try:
            return executor(task, run)
        except PieceworkError as error:
            self._log.warning("attempt_failed", **_ids(execution), code=error.code, **fault_of(error))
            return ended_by(error, is_paid=execution.is_paid)
        except Exception as bug:  # noqa: BLE001  # an executor's bug: logged, and answered without its text
            self._log.warning("executor_failed", **_ids(execution), **fault_of(bug))
            return ended_by_bug()

    def _checked(
        self, contract: ContractRecord, execution: Execution, outcome: Outcome, files: Sequence[Artifact]
    ) -> Output | Ended:
        """The output that may be delivered.

        Every other one ends alike, and after the same time: the seeker wrote the schema, and could make a check slow
        for the outputs that it asks about.
        """
        began = time.monotonic()
        try:
            return output_of(outcome.output, files, contract.output_schema, self._inline_bytes)
        except OutputRefused as refusal:
            self._log.warning("output_refused", **_ids(execution), **refusal.facts, reason=str(refusal))
        self._pause(max(0.0, CHECK_SECONDS - (time.monotonic() - began)))
        return ended_by_output()

    def _steps_of(self, execution: Execution, is_fresh: bool, right: Right) -> Steps:
        key = attempt_key(execution.contract_id, execution.generation, execution.attempt.number)
        after = None if is_fresh else State.RUNNING
        claim = Claim(key, execution.lease.token, execution.body_digest, after, right=right)
        return ListedSteps(self._steps, claim, lambda: self._clock() // 1000 + STEP_DAYS * 86_400)

    def _run_of(self, steps: Steps, ends_ms: int, told: PartialOutput, right: Right) -> Run:
        return Run(
            remaining_ms=lambda: ends_ms - self._clock(),
            steps=steps,
            log=self._log,
            on_progress=told.progress,
            on_item=told.item,
            on_delta=told.delta,
            right=right,
        )


def attempt_key(contract_id: str, generation: int, attempt: int) -> str:
    """The key that the steps of one attempt are recorded under."""
    return piece_key("worker", contract_id, str(generation), str(attempt))


def _ids(execution: Execution) -> dict[str, str]:
    return {"contract_id": execution.contract_id, "task_id": execution.task_id, "executor": execution.executor}


def _task(contract: ContractRecord, execution: Execution, executor: Executor, inputs: Json, ends_ms: int) -> Task:
    document: Mapping[str, Json] = contract.document
    prompt = inputs.get("prompt") if isinstance(inputs, dict) else None
    return Task(
        door="worker",
        caller=document["parties"]["seeker"]["agent_id"],
        task_type=next(iter(executor.task_types), executor.name),
        prompt=prompt if isinstance(prompt, str) else document["task"]["description"],
        inputs=inputs,
        output_schema=contract.output_schema,
        task_id=execution.task_id,
        execution_id=execution.contract_id,
        attempt_id=f"{execution.generation}.{execution.attempt.number}",
        deadline_ms=ends_ms,
        contract={name: value for name, value in document.items() if name not in ("signatures", "callbacks")},
        settings=executor.settings_of("default"),
        check=lambda output: problem_of(output, contract.output_schema),
    )
