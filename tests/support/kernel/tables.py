"""The kernel's stores twice, for contract tests: in memory, and in tables of their own on the embedded AWS."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.aws.due_table import DueTable
from piecework.aws.table import THE_KERNEL, Table
from piecework.kernel.settings import KernelSettings
from piecework.kernel.store.agents import KernelAgents
from piecework.kernel.store.counters import KernelCounters
from piecework.kernel.store.listing.connected import KernelConnections
from piecework.kernel.store.outbox import KernelOutbox
from piecework.kernel.store.runners import KernelRunners
from piecework.kernel.store.table import KernelTable
from piecework.kernel.store.values import KernelValues
from tests.support.kernel.fakes import new_store
from tests.support.lost_answers import LostAnswers


class Strict:
    """A DynamoDB client that refuses what DynamoDB refuses and an emulator might let pass."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            single = [given] if "TableName" in given else []
            writes = [next(iter(write.values())) for write in given.get("TransactItems", [])]
            check_expressions([*single, *writes])
            check_keys(writes, most=100)
            for requests in given.get("RequestItems", {}).values():
                if isinstance(requests, list):
                    check_keys([{**next(iter(request.values())), "TableName": ""} for request in requests], most=25)
            return getattr(self._client, name)(**given)

        return call


def check_expressions(requests: list[dict[str, Any]]) -> None:
    """Every value and name that is given must be used."""
    for request in requests:
        used = {
            word
            for member, text in request.items()
            if member.endswith("Expression")
            for word in re.findall(r"[:#]\w+", text)
        }
        names = ("ExpressionAttributeValues", "ExpressionAttributeNames")
        assert used == {word for name in names for word in request.get(name, {})}, request


def check_keys(writes: list[dict[str, Any]], most: int) -> None:
    """An item may be written once, and only so many; keys and items have their limits."""
    keys = [
        (write["TableName"], *((write.get("Key") or write["Item"])[name]["S"] for name in ("pk", "sk")))
        for write in writes
    ]
    assert len(set(keys)) == len(keys) <= most, keys
    assert all(0 < len(pk.encode()) <= 2_048 and 0 < len(sk.encode()) <= 1_024 for _, pk, sk in keys)
    sizes = [len(str(write["Item"])) for write in writes if "Item" in write]
    assert max(sizes, default=0) <= 400_000
    assert sum(sizes) <= 4_000_000


@dataclass
class KernelTables:
    """The same ports as `kernel_fakes.KernelStore`."""

    executions: KernelTable
    agents: KernelAgents
    runners: KernelRunners
    connections: KernelConnections
    outbox: KernelOutbox
    counters: KernelCounters
    due_times: DueTable
    client: Any
    table: str
    bucket: str


def new_tables(
    aws: Any, clock: Callable[[], int], settings: KernelSettings | None = None, client: Any = None
) -> KernelTables:
    """Empty stores."""
    table, due, bucket = aws.new_table("KernelTable"), aws.new_table("DueTable"), aws.new_bucket()
    client, s3 = Strict(client or aws.client("dynamodb")), aws.client("s3")
    rows, due_times = Table(client, table, THE_KERNEL), DueTable(client, due)
    values = KernelValues(lambda: s3, bucket)
    return KernelTables(
        executions=KernelTable(rows, due, values, settings or KernelSettings()),
        agents=KernelAgents(rows, due_times, clock),
        runners=KernelRunners(rows, values, due_times, clock),
        connections=KernelConnections(rows, clock),
        outbox=KernelOutbox(rows),
        counters=KernelCounters(rows),
        due_times=due_times,
        client=client,
        table=table,
        bucket=bucket,
    )


STORES = ("fake", "dynamodb", "lost answers")  # every contract of the stores is held to each of these


def store_of(request: Any, clock: Callable[[], int]) -> Any:
    """The store that a fixture's parameter names: in memory, in DynamoDB, or there with answers that are lost."""
    if request.param == "fake":
        return new_store(clock)
    aws = request.getfixturevalue("embedded_aws")
    lossy = LostAnswers(aws.client("dynamodb")) if request.param == "lost answers" else None
    return new_tables(aws, clock, client=lossy)
