"""The routes of the `hire` function: POST /execute and GET /tasks/{task_id} (worker specification 1.2 step 1, 1.3)."""

from collections.abc import Callable
from typing import Final

from piecework.edge.http import Request, Response
from piecework.jsons import loads
from piecework.values import dataclass
from piecework.worker.answer.bodies import PENDING, Answer
from piecework.worker.contract.contracts import Contracts
from piecework.worker.contract.inputs import body_digest
from piecework.worker.door import BODY_BYTES, json_response, raw_json, single_header
from piecework.worker.errors import WorkerError
from piecework.worker.ids import contract_id, task_id
from piecework.worker.payment.payments import HEADER, HEADER_BYTES
from piecework.worker.record.executions import Moved
from piecework.worker.task.flow import RACES, Hire
from piecework.worker.task.start import Ask
from piecework.worker.task.views import Views

CONTRACT_HEADER: Final = "x-contract-id"


@dataclass(frozen=True)
class HireRoutes:
    """Reads requests, and turns answers into responses."""

    hire: Hire
    contracts: Contracts
    views: Views
    clock: Callable[[], int]
    body_bytes: int = BODY_BYTES

    def execute(self, request: Request) -> Response:
        """POST /execute."""
        began_ms = self.clock()
        contract = _named_contract(request)
        _check_payment_headers(request)
        raw = raw_json(request, self.body_bytes)
        body = loads(raw)
        ask = Ask(request, contract, body, body_digest(body, raw), began_ms)
        try:
            return _response(self.hire.execute(ask), contract)
        except WorkerError as error:
            error.contract_id = error.contract_id or contract  # every body says what it is about
            raise

    def task(self, request: Request) -> Response:
        """GET /tasks/{task_id}: always 200 for a task that is there; never asks for payment."""
        wanted = _named_contract(request)
        named = task_id(request.path_params.get("task_id", ""))
        contract = self.contracts.get(wanted)
        for _ in range(RACES):
            try:
                execution = self.hire.current.current(contract) if contract else None
            except Moved:
                continue
            if contract is None or execution is None or execution.task_id != named:
                break
            if self.views.is_forgotten(execution):
                break
            self.hire.count(wanted)
            if execution.state in PENDING:
                self.hire.current.wake(execution)
                answer = self.views.pending(self.hire.cases.of(contract, execution))
            else:
                answer = self.views.recorded(execution, contract)  # loads no executor
            return _response(Answer(200, answer.body, answer.headers), wanted)
        raise WorkerError("TASK_NOT_FOUND", "no such task")


def _named_contract(request: Request) -> str:
    """The contract that a request is about. Raises INVALID_REQUEST: it does not name exactly one."""
    named = single_header(request, CONTRACT_HEADER)
    if not named:
        raise WorkerError("INVALID_REQUEST", "send X-Contract-ID with the id of a registered contract")
    return contract_id(named)


def _check_payment_headers(request: Request) -> None:
    """One payment at most, and not a huge one; what it holds is read only where it counts."""
    sent = [value for name in HEADER.values() for value in request.headers.get(name, [])]
    if len(sent) > 1 or any(len(value) > HEADER_BYTES for value in sent):
        raise WorkerError("PAYMENT_MALFORMED", f"send one payment header of at most {HEADER_BYTES} bytes")


def _response(answer: Answer, contract: str) -> Response:
    facts = {name: answer.body.get(name) for name in ("task_id", "code")}
    paid = answer.body.get("payment") or {}
    return json_response(
        answer.status,
        dict(answer.body),
        answer.headers,
        contract_id=contract,
        outcome=answer.body["status"],
        payment=paid.get("status"),
        **facts,
    )
