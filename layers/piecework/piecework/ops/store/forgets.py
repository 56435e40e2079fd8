"""What forgets pieces and contracts, over DynamoDB and S3."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from piecework.clock import now_in_ms
from piecework.errors import NotFound
from piecework.ops.forgetting.pieces import ForgetPieces
from piecework.ops.forgetting.tasks import ForgetTasks
from piecework.ops.forgetting.verbs import Forgets
from piecework.ops.records import Records
from piecework.ops.store.forgotten_pieces import ForgettablePiecesTable
from piecework.ops.store.forgotten_tasks import ForgettableTasksTable
from piecework.ops.store.objects import ErasedObjects

if TYPE_CHECKING:
    from piecework.aws.clients import Clients


def forgets_of(records: Records, clients: Clients, table: str, bucket: str, work: str, contracts: str) -> Forgets:
    """The verbs over these tables and this bucket; without the worker's tables, contracts are not found."""
    objects = ErasedObjects(lambda: clients.s3, bucket)

    def pieces() -> ForgetPieces:
        return ForgetPieces(ForgettablePiecesTable(clients.dynamodb, table), objects, now_in_ms, sleep)

    def tasks() -> ForgetTasks:
        if not (work and contracts):
            raise NotFound("this stack has no worker door")
        return ForgetTasks(ForgettableTasksTable(clients.dynamodb, work, contracts), objects, now_in_ms, sleep)

    return Forgets(records, pieces, tasks)
