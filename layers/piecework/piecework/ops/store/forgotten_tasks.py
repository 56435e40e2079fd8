"""The worker's rows, as an operator has them forgotten: records, contracts, webhooks, events of streams, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from piecework.aws.listed import keys_of
from piecework.aws.steps_table import steps_of
from piecework.aws.table import THE_WORK, Table
from piecework.aws.writes import ABSENT, PRESENT, new_write
from piecework.clock import now_in_ms
from piecework.jsons import Json, canonical
from piecework.ops.forgetting.erasing import TRIES
from piecework.ops.forgetting.tasks import ForgettableTasks
from piecework.ops.store.worker_rows import INDEX
from piecework.webhooks.deliveries import KEPT_SECONDS, Delivery, DeliveryState
from piecework.webhooks.store import STOP, to_item, work_deliveries
from piecework.worker.contract.contracts import ContractRecord
from piecework.worker.record.execution import Execution
from piecework.worker.store.contracts_table import ContractsTable
from piecework.worker.store.executions_table import AS_READ, from_item, index_key
from piecework.worker.store.executions_table import to_item as to_record
from piecework.worker.stream.streams import END

if TYPE_CHECKING:
    from piecework.aws.table import Client

PAGE: Final = 100
EMPTY: Final = "{}"  # of a stream's event
NO_BODY: Final = b"{}"
NOWHERE: Final = "https://forgotten.invalid/"
AS_KEPT: Final = "attribute_exists(pk) AND #state = :before"
KEPT_MS: Final = 86_400_000  # of the mark at a stream's end, past every event's own time: four days
REDUCE: Final = "SET document = :document REMOVE webhook_secret"
SAME: Final = "#hash = :hash"


class ForgettableTasksTable(ForgettableTasks):
    """The worker's rows in DynamoDB."""

    def __init__(self, client: Client, work: str, contracts: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._work, self._clock = Table(client, work, THE_WORK), clock
        self._contracts = ContractsTable(client, contracts, clock)
        self._of_contracts = Table(client, contracts, "the contracts table")
        self._deliveries = work_deliveries(client, work, clock)

    def execution(self, contract_id: str) -> Execution | None:
        item = self._work.get(f"EXEC#{contract_id}", "EXEC")
        return from_item(item) if item else None

    def contract(self, contract_id: str) -> ContractRecord | None:
        return self._contracts.get(contract_id)

    def begin(self, execution: Execution) -> bool:
        return self._work.put(_row(execution), ABSENT).done

    def move(self, before: Execution, after: Execution) -> bool:
        as_read = {"state": before.state, "version": before.version}
        return self._work.put(_row(after), AS_READ, as_read).done

    def reduce(self, contract: ContractRecord, document: dict[str, Json]) -> None:
        text = canonical(document).decode()
        values = {"document": text, "hash": contract.hash}
        self._of_contracts.update((contract.contract_id,), REDUCE, values, SAME, ours={"document": text})

    def stop_webhooks(self, contract_id: str) -> None:
        self._deliveries.stop(contract_id)

    def empty_webhooks(self, contract_id: str, event_ids: list[str]) -> bool:
        expires_at = self._clock() // 1000 + KEPT_SECONDS
        for event_id in event_ids:
            empty = Delivery(contract_id, event_id, NOWHERE, NO_BODY, state=DeliveryState.STOPPED)
            self._work.put(to_item(empty, expires_at), ABSENT)
        return any(self._empty_all(contract_id) for _ in range(TRIES))

    def _empty_all(self, contract_id: str) -> bool:
        rows = [row for row in self._work.query(f"WEBHOOK#{contract_id}", page=PAGE) if row["sk"] != STOP]
        full = [row for row in rows if row["body"] != NO_BODY or "secret" in row]
        return all([self._empty(row["pk"], row["sk"], row["state"], row["url"]) for row in full])

    def _empty(self, pk: str, sk: str, state: str, url: str) -> bool:
        """Take out what a webhook holds, and its address but for the host; one that was to be sent is stopped."""
        after = DeliveryState.STOPPED if state == DeliveryState.PENDING else state
        host = f"https://{urlsplit(url).hostname or ''}/"
        values = {"before": state, "after": after, "body": NO_BODY, "url": host}
        update = "SET #body = :body, #url = :url, #state = :after REMOVE #secret"
        return self._work.update((pk, sk), update, values, AS_KEPT, ours={"body": NO_BODY, "state": after}).done

    def close_stream(self, stream: str) -> Iterator[str]:
        pk = f"STREAM#{stream}"
        while True:
            rows = list(self._work.query(pk, page=PAGE))
            if rows and rows[-1]["kind"] == END:
                return iter([row["sk"] for row in rows if row["data"] != EMPTY])
            number = int(rows[-1]["sk"]) + 1 if rows else 1
            expires_at = (self._clock() + 4 * KEPT_MS) // 1000
            mark = {"pk": pk, "sk": f"{number:09d}", "kind": END, "data": EMPTY, "write": new_write()}
            self._work.put(mark | {"expires_at": expires_at}, ABSENT)

    def empty_event(self, stream: str, number: str) -> None:
        self._work.update((f"STREAM#{stream}", number), "SET #data = :empty", {"empty": EMPTY}, PRESENT)

    def steps(self, piece: str) -> Iterator[str]:
        return (row["pk"] for row in self._work.query(steps_of(piece), page=PAGE, index=INDEX))

    def drop_step(self, key: str) -> None:
        self._work.delete((key, "STEP"))


def _row(execution: Execution) -> dict[str, object]:
    return to_record(execution, new_write()) | keys_of(index_key(execution.contract_id), execution.created_at_ms)
