"""The operator's access to a worker's work table."""

from collections.abc import Iterator
from typing import Any, Final

from piecework.aws.attributes import plain
from piecework.aws.failing import aws_errors
from piecework.worker.ids import contract_id
from piecework.worker.record.execution import Execution
from piecework.worker.store.executions_table import ExecutionsTable, from_item
from piecework_cli.output import CommandError
from piecework_cli.target import Target

WORK_TABLE: Final = "PIECEWORK_WORK_TABLE"
DUE_TABLE: Final = "PIECEWORK_DUE_TABLE"


def executions_of(target: Target) -> ExecutionsTable:
    """The worker's own store, so that a command changes records by the same conditional writes."""
    return ExecutionsTable(target.clients.dynamodb, target.table(WORK_TABLE), target.table(DUE_TABLE))


def execution_of(target: Target, contract: str) -> Execution:
    """A contract's stored execution.

    Raises:
        CommandError: the contract has not been paid for.
    """
    found = executions_of(target).read(contract_id(contract))
    if found is None:
        raise CommandError(f"the worker does not have a task of {contract}")
    return found


def all_executions(target: Target) -> Iterator[Execution]:
    """Every stored execution; reads the whole table."""
    client: Any = target.clients.dynamodb
    more: dict[str, Any] = {}
    while True:
        with aws_errors("the work table"):
            answer = client.scan(
                TableName=target.table(WORK_TABLE),
                FilterExpression="sk = :execution",
                ExpressionAttributeValues={":execution": {"S": "EXEC"}},
                **more,
            )
        yield from (from_item(plain(item)) for item in answer["Items"])
        if "LastEvaluatedKey" not in answer:
            return
        more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
