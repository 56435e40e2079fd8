"""POST /contracts and GET /contracts/{id}: how a signed contract gets in, and what is told of it.

No login is needed: only a contract that our own wallet signed passes, so nobody can plant one.
"""

from collections.abc import Callable
from typing import Final, Literal

from piecework.errors import Paused
from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.contract.choosing import Offer
from piecework.worker.contract.contracts import ContractRecord, Contracts, WorkerIdentity, time_text, validate
from piecework.worker.errors import ContractInvalid, WorkerError
from piecework.worker.ids import CONTRACT_ID
from piecework.worker.public_url import PublicUrl
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State

SIGNED: Final = "SIGNED"  # HIRE's names of a contract's states
EXECUTING: Final = "EXECUTING"
COMPLETED: Final = "COMPLETED"
DELIVERED: Final = frozenset({State.COMPLETED, State.PARTIAL_FINAL})
MEMBERS: Final = frozenset({"contract", "webhook_secret"})


@dataclass(frozen=True, slots=True)
class Registration:
    """Takes contracts in and tells of them; `execution_of` reads what has become of one."""

    contracts: Contracts
    rules: WorkerIdentity
    offer: Offer
    public_base_url: str | PublicUrl
    clock: Callable[[], int]
    execution_of: Callable[[str], Execution | None]
    admit: Callable[[str], None] = lambda executor: None  # raises Paused while nothing new may begin for it

    def register(self, body: Json) -> tuple[Literal["new", "same"], dict[str, Json]]:
        """Check a contract and keep it: whether it is new, and the answer's body.

        Raises:
            WorkerError: INVALID_REQUEST; the body has other members than `contract` and `webhook_secret`.
            ContractInvalid: it breaks a rule.
            ContractConflict: its id stands for another contract.
            Paused: it is new, and the door or its executor takes no new work.
        """
        document, secret = _members(body)
        try:
            record = validate(document, secret, self.rules, self.clock())
            self._check_admitted(record, self.offer.name_for(record.document))
            kept = self.contracts.put(record)
        except WorkerError as error:
            error.contract_id = _shown_id(document)
            raise
        return kept, {
            "contract_id": record.contract_id,
            "hash": record.hash,
            "state": SIGNED,
            "execute_url": f"{self.public_base_url}/execute",
            "expires_at": time_text(record.deadline_ms),
        }

    def _check_admitted(self, record: ContractRecord, executor: str) -> None:
        try:
            self.admit(executor)
        except Paused:
            if self.contracts.get(record.contract_id) is None:
                raise

    def show(self, contract_id: str) -> dict[str, Json]:
        """What everybody who knows the id may know. Raises CONTRACT_NOT_FOUND."""
        record = find_contract(self.contracts, contract_id)
        state = contract_state(self.execution_of(contract_id))
        return {"contract_id": record.contract_id, "hash": record.hash, "state": state}


def contract_state(execution: Execution | None) -> str:
    """HIRE's state of a registered contract; failed work stays EXECUTING, since HIRE has no state for it."""
    if execution is None or not execution.task_id:  # the second was forgotten before anybody paid
        return SIGNED
    return COMPLETED if execution.state in DELIVERED else EXECUTING


def find_contract(contracts: Contracts, contract_id: str) -> ContractRecord:
    """The contract of a checked id.

    Raises:
        WorkerError: CONTRACT_NOT_FOUND.
    """
    record = contracts.get(contract_id)
    if record is None:
        raise WorkerError("CONTRACT_NOT_FOUND", "no such contract; register it with POST /contracts")
    return record


def _members(body: Json) -> tuple[Json, str | None]:
    if not isinstance(body, dict) or "contract" not in body or not body.keys() <= MEMBERS:
        raise WorkerError("INVALID_REQUEST", 'send {"contract": {…}} and, with a webhook, "webhook_secret"')
    secret = body.get("webhook_secret")
    if secret is not None and not isinstance(secret, str):
        raise ContractInvalid("V13", "webhook_secret must be a string")
    return body["contract"], secret


def _shown_id(document: Json) -> str | None:
    found = document.get("contract_id") if isinstance(document, dict) else None
    return found if isinstance(found, str) and CONTRACT_ID.fullmatch(found) else None
