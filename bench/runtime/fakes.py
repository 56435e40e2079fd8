"""Dictionaries in place of AWS, to measure only a handler's own cost."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from piecework.durable.artifacts import EvidenceStore, Served
from piecework.durable.pieces import Overflow, Piece, PieceTable
from piecework.durable.steps import ListedStepTable


class MemoryPersistence(BasePersistenceLayer):
    """Powertools' idempotency records in a dictionary."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.records: dict[str, DataRecord] = {}

    def _get_record(self, idempotency_key: str) -> DataRecord:
        if idempotency_key not in self.records:
            raise IdempotencyItemNotFoundError(idempotency_key)
        return self.records[idempotency_key]

    def _put_record(self, data_record: DataRecord) -> None:
        if data_record.idempotency_key in self.records:
            raise IdempotencyItemAlreadyExistsError(old_data_record=self.records[data_record.idempotency_key])
        self.records[data_record.idempotency_key] = data_record

    def _update_record(self, data_record: DataRecord) -> None:
        self.records[data_record.idempotency_key] = data_record

    def _delete_record(self, data_record: DataRecord) -> None:
        del self.records[data_record.idempotency_key]


class MemoryTable(PieceTable, ListedStepTable):
    """Pieces without contention."""

    def __init__(self) -> None:
        self.items: dict[str, Piece] = {}
        self.steps: dict[str, bytes] = {}

    def claim(self, key: str, piece: Piece, now_ms: int) -> tuple[bool, Piece | None]:
        standing = self.items.setdefault(key, piece)
        return (True, None) if standing is piece else (False, standing)

    def renew(self, key: str, token: str, lease_until_ms: int) -> None:
        pass

    def record(self, key: str, token: str, piece: Piece) -> None:
        self.items[key] = piece

    def release(self, key: str, token: str, reason_code: str, reason: str) -> None:
        del self.items[key]

    def read(self, key: str) -> Piece | None:
        return self.items.get(key)

    def find(self, key: str) -> bytes | None:
        return self.steps.get(key)

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        return self.steps.setdefault(key, body)

    def record_listed(self, key: str, body: bytes, expires_at: int, *, piece: str, name: str) -> bytes:
        return self.record_once(key, body, expires_at)


class NoBucket(EvidenceStore, Overflow):
    """A bucket that does not store, like the baseline's."""

    def put(self, *written: Any) -> None:
        pass

    def read(self, digest: str, token: str) -> Served | None:
        return None

    def get(self, pointer: str) -> bytes:
        return b""


class Context:
    """The parts of Lambda's context that the contenders use."""

    function_name = "bench"
    function_version = "$LATEST"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:bench"
    aws_request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
    client_context: Mapping[str, Any] | None = None

    def get_remaining_time_in_millis(self) -> int:
        return 29_000
