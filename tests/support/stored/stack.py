"""A stack as release 7a1e751 left it: every row of `stored/*_7a1e751.json` in the tables of this release."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
Row = dict[str, Any]


class OldStack(NamedTuple):
    """Names of the tables and of the bucket."""

    aws: Any
    results: str
    work: str
    contracts: str
    kernel: str
    due: str
    bucket: str

    @property
    def settings(self) -> dict[str, str]:
        """What functions of this release need to use it."""
        return {
            **self.aws.variables,
            "PIECEWORK_TABLE": self.results,
            "PIECEWORK_WORK_TABLE": self.work,
            "PIECEWORK_CONTRACTS_TABLE": self.contracts,
            "PIECEWORK_KERNEL_TABLE": self.kernel,
            "PIECEWORK_DUE_TABLE": self.due,
            "PIECEWORK_BUCKET": self.bucket,
        }


def new_stack(aws: Any) -> OldStack:
    """A stack of its own with all the rows."""
    tables = ("ResultsTable", "WorkTable", "ContractsTable", "KernelTable", "DueTable")
    stack = OldStack(aws, *map(aws.new_table, tables), aws.new_bucket())
    client = aws.client("dynamodb")
    for table, row in rows_of(stack):
        client.put_item(TableName=table, Item=row)
    return stack


def rows_of(stack: OldStack) -> Iterator[tuple[str, Row]]:
    """Every row, with the table that holds it; of two pieces with one key the later one stays."""
    for execution in stored("kernel").values():
        yield from ((stack.kernel, row) for row in execution["kernel"])
        yield from ((stack.due, row) for row in execution["due"])
    yield from ((stack.kernel, row) for row in stored("kernel_connections"))
    running = stored("running")
    for name, table in (("kernel", stack.kernel), ("results", stack.results), ("work", stack.work)):
        yield from ((table, row) for row in running[name])
    yield from ((stack.results, piece["item"]) for piece in stored("pieces")["items"])
    worker = stored("worker")
    yield from ((stack.contracts, row) for row in worker["contracts"].values())
    for kind in ("executions", "deliveries", "ledger"):
        yield from ((stack.work, row) for row in worker[kind].values())


def stored(name: str) -> Any:
    """What a file holds, with the bytes of binary attributes."""
    return _binary(json.loads((FOLDER / f"{name}_7a1e751.json").read_text("utf-8")))


def _binary(value: Any) -> Any:
    if isinstance(value, list):
        return [_binary(one) for one in value]
    if not isinstance(value, dict):
        return value
    for name in ("base64", "__b64"):
        if value.keys() == {name}:
            return base64.b64decode(value[name])
    if value.keys() == {"B"} and isinstance(value["B"], str):
        return {"B": base64.b64decode(value["B"])}
    return {name: _binary(one) for name, one in value.items()}
