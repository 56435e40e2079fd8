"""What an operator asks to have forgotten; each call is recorded before anything goes."""

from collections.abc import Callable, Mapping

from piecework.edge.roles import Caller
from piecework.jsons import Json
from piecework.ops.forgetting.pieces import ForgetPieces
from piecework.ops.forgetting.tasks import ForgetTasks
from piecework.ops.records import Records
from piecework.ops.verbs import contract_of, only


class Forgets:
    """Forgets pieces and contracts."""

    def __init__(self, records: Records, pieces: Callable[[], ForgetPieces], tasks: Callable[[], ForgetTasks]) -> None:
        self._records, self._pieces, self._tasks = records, pieces, tasks

    def task(self, caller: Caller, contract_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Have a contract and its task forgotten; `complete` is False until a repeat has erased the rest.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, or the body has another member.
            NotFound: the contract does not exist, or this stack has no worker door.
            StillNeeded: the task has not ended, or its money is not decided.
        """
        only(body, "reason")
        forget, named = self._tasks().forget, contract_of(contract_id)
        return self._records.noted(caller, "contract.forget", named, body, lambda record: forget(named, record))

    def piece(self, caller: Caller, key: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Have a piece forgotten; `complete` is False until a repeat has erased the rest.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, or the body has another member.
            NotFound: the piece does not exist.
            StillNeeded: it is running.
        """
        only(body, "reason")
        forget = self._pieces().forget
        return self._records.noted(caller, "piece.forget", key, body, lambda record: forget(key, record))
