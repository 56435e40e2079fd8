"""Result bodies: what a seeker reads of its task, now and at every later look (worker specification 1.5).

A stored result turns into an answer only here, and only for a state that was paid. Everything but links and their ends
is the same in every answer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from piecework.jsons import Json
from piecework.values import dataclass, replace
from piecework.worker.answer.deliverables import Deliverables
from piecework.worker.answer.failures import as_told
from piecework.worker.answer.outputs import items_of
from piecework.worker.answer.partial_output import withheld
from piecework.worker.contract.contracts import ContractRecord, time_text
from piecework.worker.door import MESSAGE_CHARACTERS, error_member
from piecework.worker.errors import CODES, WorkerError
from piecework.worker.payment.terms import receipt_headers
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.record.values import Failure, Item, last_refusal

SHORTEST_WAIT_SECONDS: Final = 2
LONGEST_WAIT_SECONDS: Final = 30
PAID: Final = frozenset({State.COMPLETED, State.PARTIAL_FINAL})
PENDING: Final = frozenset({State.EXECUTING, State.RESULT_READY, State.SETTLING, State.UNKNOWN})
RETRYABLE: Final = frozenset({State.FAILED_TRANSIENT, State.UNPAID})
GONE: Final = 410
LOOKS_AT_ONCE: Final = 10  # for files in the bucket; as many connections as a client keeps
OWED_BACK: Final = "the payment is owed back"
PAID_BACK: Final = "the payment is paid back"  # as long as the words that it stands for
EXHAUSTED: Final = Failure("RETRIES_EXHAUSTED", "every attempt of this contract is used up")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body, and the headers beside the common ones."""

    status: int
    body: Mapping[str, Json]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Bodies:
    """Makes bodies; addresses come from the settings, never from a request."""

    public_base_url: str | PublicUrl
    files: Deliverables
    clock: Callable[[], int]
    stream_url: Callable[[Execution], str | None]  # None for a worker without streams

    def poll_url(self, execution: Execution) -> str:
        """Where the task can be read."""
        return f"{self.public_base_url}/tasks/{execution.task_id}"

    def pending(self, execution: Execution, expected_ms: int) -> Answer:
        """202: the task goes on."""
        until_ms = self._estimate(execution, expected_ms)
        body = {
            "status": "pending",
            **_ids(execution),
            "poll_url": self.poll_url(execution),
            "estimated_completion": time_text(until_ms + 999),
            "payment": payment_member(execution, None),
        }
        stream = self.stream_url(execution)
        seconds = (until_ms - self.clock()) // 1000
        wait = min(max(seconds, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
        return Answer(202, body | ({"stream_url": stream} if stream else {}), {"Retry-After": str(wait)})

    def partly_done(
        self, execution: Execution, contract: ContractRecord, expected_ms: int, items: Sequence[Item]
    ) -> Answer:
        """202: the task goes on and is partly done. Its results are withheld until it is paid."""
        pending = self.pending(execution, expected_ms)
        made = [item if execution.is_paid else withheld(item) for item in items]
        shown, entries = self._listed(made, is_fresh=True)
        worked_ms = execution.outcome.worked_ms or self.clock() - execution.attempt.started_at_ms
        so_far = replace(execution, outcome=replace(execution.outcome, worked_ms=worked_ms))
        body = {
            **pending.body,
            "status": "partial",
            "final": False,
            "output": {"type": "multiple", "items": shown},
            "deliverables": entries,
            "metadata": metadata(so_far, contract),
        }
        return Answer(pending.status, body, pending.headers)

    def finished(
        self, execution: Execution, contract: ContractRecord, output: Mapping[str, Json], *, is_fresh: bool = False
    ) -> Answer:
        """200: the paid result. Files are looked for unless they were stored by this very call."""
        shown, entries = self._linked(output, is_fresh)
        body: dict[str, Json] = {
            "status": "partial" if execution.state is State.PARTIAL_FINAL else "completed",
            **_ids(execution),
            "output": shown,
            "deliverables": entries,
            "metadata": metadata(execution, contract),
            "payment": payment_member(execution, contract),
        }
        final = {"final": True} if execution.state is State.PARTIAL_FINAL else {}
        return Answer(200, body | final, receipt_of(execution))

    def failed(self, execution: Execution, contract: ContractRecord, failure: Failure | None = None) -> Answer:
        """The failure that stands, or another one, with the status it has every time."""
        told = as_told(failure or execution.failure or Failure("INTERNAL_ERROR", "the task failed"))
        told = _as_ended(execution, told)
        can_retry = CODES[told.code].retryable and execution.state in RETRYABLE
        error = error_member(_error_of(told, execution)) | {"retryable": can_retry}
        error["retries_remaining"] = execution.retries_remaining if can_retry else 0
        body: dict[str, Json] = {
            "status": "failed",
            **_ids(execution),
            "error": error,
            "metadata": metadata(execution, contract),
            "payment": payment_member(execution, contract),
        }
        return Answer(told.status, body, receipt_of(execution))

    def _estimate(self, execution: Execution, expected_ms: int) -> int:
        """When the task is expected to end; moves on only when that has passed, and never past its deadline."""
        now_ms = self.clock()
        expected = max(expected_ms, 1_000)
        until_ms = (execution.attempt.started_at_ms or execution.created_at_ms) + expected
        if until_ms <= now_ms:
            until_ms += expected * (1 + (now_ms - until_ms) // expected)
        return min(until_ms, max(execution.ends_at_ms, now_ms))

    def _linked(self, output: Mapping[str, Json], is_fresh: bool) -> tuple[Mapping[str, Json], list[Json]]:
        shown, entries = self._listed(items_of(output), is_fresh)
        return (shown[0] if output["type"] != "multiple" else {"type": "multiple", "items": shown}), entries

    def _listed(self, items: Sequence[Item], is_fresh: bool) -> tuple[list[dict[str, Json]], list[Json]]:
        """The items as `output` shows them, and the files among them as `deliverables` lists them."""
        gone = set() if is_fresh else self._gone(items)
        linked = [self._item(item, gone) for item in items]
        entries: list[Json] = [
            {name: value for name, value in item.items() if name != "type"} for item in linked if item["type"] == "file"
        ]
        shown = [
            {name: value for name, value in item.items() if name not in ("expires_at", "details")} for item in linked
        ]
        return shown, entries

    def item(self, item: Item) -> dict[str, Json]:
        """One item as `output` shows it, with a fresh link."""
        return self._listed([item], is_fresh=False)[0][0]

    def _gone(self, items: Sequence[Item]) -> set[Json]:
        """The keys of files that are not kept any more; several are looked for at once."""
        keys = [item["key"] for item in items if "key" in item]
        if len(keys) < 2:  # the usual case needs no threads
            return {key for key in keys if not self.files.exists(key)}
        with ThreadPoolExecutor(min(len(keys), LOOKS_AT_ONCE)) as pool:
            return {key for key, is_there in zip(keys, pool.map(self.files.exists, keys), strict=True) if not is_there}

    def _item(self, item: Mapping[str, Json], gone: Collection[Json]) -> dict[str, Json]:
        if "key" not in item:  # no file, or a file that is withheld
            return dict(item)
        kept: dict[str, Json] = {name: value for name, value in item.items() if name != "key"}
        if item["key"] in gone:
            return kept | {"details": {"status": GONE, "reason": "the file is not kept any more"}}
        link = self.files.link(item["key"])
        return kept | {"url": link.url, "expires_at": time_text(link.expires_at_ms)}


def metadata(execution: Execution, contract: ContractRecord) -> dict[str, Json]:
    """How the attempt went."""
    limit = contract.max_latency_ms
    member: dict[str, Json] = {
        "execution_time_ms": max(0, execution.outcome.worked_ms),
        "executor": execution.executor,
        "model_used": execution.outcome.model or execution.executor,
        "attempt": execution.attempt.number,
        "sla_met": limit is None or execution.outcome.worked_ms <= limit,
    }
    ended = {"completed_at": time_text(execution.outcome.finished_at_ms)} if execution.outcome.finished_at_ms else {}
    return member | ended


def payment_member(execution: Execution, contract: ContractRecord | None) -> dict[str, Json]:
    """What became of the payment."""
    member: dict[str, Json] = {"status": execution.settlement.status}
    receipt = execution.settlement.receipt
    if contract is not None and execution.owes_refund:
        member["refund_due"] = str(contract.atomic)
    if contract is None or execution.settlement.status != "settled" or not receipt:
        return member
    return member | {
        "transaction": receipt["transaction"],
        "network": contract.network.caip2,
        "payer": receipt.get("payer", execution.payment.payer),
        "amount": str(contract.atomic),
    }


def _error_of(failure: Failure, execution: Execution) -> WorkerError:
    code, message, details = failure.code, failure.message, failure.details
    return WorkerError(code, message, details, retries_remaining=execution.retries_remaining)


def _as_ended(execution: Execution, told: Failure) -> Failure:
    """A failure with what its end means for the money."""
    if told.code == "PAYMENT_FAILED" and execution.is_ended:  # as records said it that were written earlier
        told = last_refusal(told)
    if not execution.failed_after_payment:
        return told
    said = OWED_BACK if execution.owes_refund else PAID_BACK
    message = told.message.replace(OWED_BACK, said)
    if said not in message:
        message = f"{message[: MESSAGE_CHARACTERS - len(said) - 2]}; {said}"
    return replace(told, message=message)


def receipt_of(execution: Execution) -> dict[str, str]:
    """The receipt header of every answer once there is a receipt."""
    receipt = execution.settlement.receipt
    return receipt_headers(execution.payment.version, receipt) if receipt else {}


def _ids(execution: Execution) -> dict[str, Json]:
    return {"contract_id": execution.contract_id, "task_id": execution.task_id}
