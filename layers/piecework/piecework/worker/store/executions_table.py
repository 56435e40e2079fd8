"""The work table: executions, nonce claims and the ledger; every change of a record is one conditional transaction.

| pk                               | sk              | attributes                                       |
|--------------------------------------|---------------------|------------------------------------------------------|
| EXEC#<contract id>               | EXEC            | state, version, lease, lease_until, write, payment,  |
|                                  |                 | record (JSON), told (items, JSON), told_writes, expires_at |
| CLAIM#<chain>/<asset>/<from>/<nonce> | CLAIM           | contract, generation, status, write, expires_at  |
| LEDGER#<year-month>              | <ms>#<contract>#<…> | row (JSON)                                       |

`write` is drawn anew for every write, so that a repeated request recognises its own first try; `told_writes` are those
of the items told since.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from random import uniform
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.aws.due_table import key_of, writes_between
from piecework.durable.due import Due
from piecework.errors import LeaseLost, Unavailable
from piecework.jsons import Json, canonical, loads
from piecework.jsons.stored import known
from piecework.worker.record.execution import WEBHOOK_DUE, Execution
from piecework.worker.record.executions import Executions, LedgerRow, Moved, NonceTaken
from piecework.worker.record.stored import flat, from_flat

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]
Write = dict[str, Any]

THE_TABLE: Final = "the work table"
AS_READ: Final = "#state = :state AND version = :version"
AND_LAPSED: Final = " AND lease_until <= :now"
ABSENT: Final = "attribute_not_exists(pk)"
CONDITION_FAILED: Final = "ConditionalCheckFailed"
CONFLICT: Final = "TransactionConflict"
TRANSACTION_CANCELED: Final = "TransactionCanceledException"
CONFLICT_TRIES: Final = 8  # two transactions met on one item; one of them goes on within milliseconds
CONFLICT_GAP_SECONDS: Final = 0.03
OWN_ATTRIBUTES: Final = frozenset({"state", "version", "lease", "lease_until_ms", "payment", "items"})


class ExecutionsTable(Executions):
    """Executions in DynamoDB; due times go to their own table in the same transaction."""

    def __init__(
        self, client: DynamoDBClient, table: str, due_table: str, sleep: Callable[[float], None] = real_sleep
    ) -> None:
        self._client = client
        self._table = table
        self._due_table = due_table
        self._sleep = sleep

    def read(self, contract_id: str) -> Execution | None:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key=_execution_key(contract_id), ConsistentRead=True)
        return from_item(answer["Item"]) if "Item" in answer else None

    def is_claimed(self, claim_key: str) -> bool:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key=_claim_key(claim_key), ConsistentRead=True)
        return "Item" in answer

    def claim(self, before: Execution | None, after: Execution) -> None:
        write = _new_write()
        writes = [self._replacing(before, after, write), self._nonce(after, write)]
        if before is not None and before.payment.claim_status == "active":
            writes += [self._claim_status(before, "released"), self._watch(before)]
        writes += writes_between(self._due_table, before.due if before else None, after.due)
        failed = self._transact(writes, write)
        if failed and failed[0] == CONDITION_FAILED:
            raise Moved
        if failed and failed[1] == CONDITION_FAILED:
            raise NonceTaken

    def move(
        self, before: Execution, after: Execution, *, ledger: Sequence[LedgerRow] = (), webhook_at_ms: int = 0
    ) -> None:
        self._move(before, after, AS_READ, {}, ledger, webhook_at_ms)

    def take_over(self, before: Execution, after: Execution, now_ms: int) -> None:
        self._move(before, after, AS_READ + AND_LAPSED, {":now": {"N": str(now_ms)}})

    def renew(self, contract_id: str, lease: str, until_ms: int) -> None:
        self._under_lease(contract_id, lease, "SET lease_until = :until", {":until": {"N": str(until_ms)}})

    def add_item(self, contract_id: str, lease: str, item: Mapping[str, Json]) -> None:
        write = _new_write()
        values: Item = {":one": {"L": [{"S": canonical(dict(item)).decode()}]}, ":none": {"L": []}}
        values |= {":writes": {"SS": [write]}, ":write": {"S": write}}
        update = "SET told = list_append(if_not_exists(told, :none), :one) ADD told_writes :writes"
        self._under_lease(contract_id, lease, update, values, " AND NOT contains(told_writes, :write)", write)

    def _under_lease(
        self, contract_id: str, lease: str, update: str, values: Item, condition: str = "", write: str = ""
    ) -> None:
        """Change a record outside of versions, while the lease is still held; `write` is done once."""
        with aws_errors(THE_TABLE):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key=_execution_key(contract_id),
                    UpdateExpression=update,
                    ConditionExpression="lease = :lease" + condition,
                    ExpressionAttributeValues={":lease": {"S": lease}, **values},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return
            except ClientError as error:
                if error_code(error) != f"{CONDITION_FAILED}Exception":
                    raise
                standing: Any = error.response.get("Item") or {}
        if write and write in standing.get("told_writes", {}).get("SS", []):
            return
        raise LeaseLost("another runner has taken this task over")

    def owe(self, row: LedgerRow) -> None:
        with aws_errors(THE_TABLE):
            self._client.put_item(TableName=self._table, Item=_ledger_item(row))

    def ledger(self, month: str) -> list[LedgerRow]:
        rows: list[LedgerRow] = []
        more: dict[str, Any] = {}
        while True:
            with aws_errors(THE_TABLE):
                answer = self._client.query(
                    TableName=self._table,
                    KeyConditionExpression="pk = :pk",
                    ExpressionAttributeValues={":pk": {"S": f"LEDGER#{month}"}},
                    **more,
                )
            rows += [known(LedgerRow, loads(item["row"]["S"])) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return rows
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _move(
        self,
        before: Execution,
        after: Execution,
        condition: str,
        values: Item,
        ledger: Sequence[LedgerRow] = (),
        webhook_at_ms: int = 0,
    ) -> None:
        write = _new_write()
        writes = [self._replacing(before, after, write, condition, values)]
        writes += writes_between(self._due_table, before.due, after.due)
        if before.payment.claim_status != after.payment.claim_status:
            writes.append(self._claim_status(after, after.payment.claim_status))
            writes += [self._watch(after)] if after.payment.claim_status == "released" else []
        writes += [{"Put": {"TableName": self._table, "Item": _ledger_item(row)}} for row in ledger]
        if webhook_at_ms:
            due = Due(webhook_at_ms, WEBHOOK_DUE, after.contract_id)
            writes.append({"Put": {"TableName": self._due_table, "Item": key_of(due)}})
        if self._transact(writes, write):
            raise Moved

    def _replacing(
        self,
        before: Execution | None,
        after: Execution,
        write: str,
        condition: str = AS_READ,
        values: Mapping[str, Any] | None = None,
    ) -> Write:
        put: Write = {"TableName": self._table, "Item": to_item(after, write)}
        put["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if before is None:
            return {"Put": put | {"ConditionExpression": ABSENT}}
        as_read = {":state": {"S": before.state}, ":version": {"N": str(before.version)}}
        put |= {"ConditionExpression": condition, "ExpressionAttributeValues": as_read | dict(values or {})}
        return {"Put": put | {"ExpressionAttributeNames": {"#state": "state"}}}

    def _nonce(self, execution: Execution, write: str) -> Write:
        item: Item = {
            **_claim_key(execution.payment.claim_key),
            "contract": {"S": execution.contract_id},
            "generation": {"N": str(execution.generation)},
            "status": {"S": "active"},
            "write": {"S": write},
            "expires_at": {"N": str(execution.expires_at)},
        }
        return {"Put": {"TableName": self._table, "Item": item, "ConditionExpression": ABSENT}}

    def _watch(self, execution: Execution) -> Write:
        return {"Put": {"TableName": self._due_table, "Item": key_of(execution.released_due)}}

    def _claim_status(self, execution: Execution, status: str) -> Write:
        update: Write = {
            "TableName": self._table,
            "Key": _claim_key(execution.payment.claim_key),
            "UpdateExpression": "SET #status = :status, expires_at = :expires",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":status": {"S": status}, ":expires": {"N": str(execution.expires_at)}},
        }
        return {"Update": update}

    def _transact(self, writes: list[Write], write: str) -> list[str]:
        """Write all or nothing; returns the reasons per write when a condition failed, and nothing on success."""
        for _ in range(CONFLICT_TRIES):
            reasons = self._try(writes)
            codes = [str(reason.get("Code", "")) for reason in reasons]
            if not codes or _is_ours(reasons, write):
                return []
            if CONDITION_FAILED in codes:
                return codes
            self._sleep(uniform(CONFLICT_GAP_SECONDS / 3, CONFLICT_GAP_SECONDS))  # noqa: S311  # jitter is no secret
        raise Unavailable("the work table is busy; try again")

    def _try(self, writes: list[Write]) -> list[Mapping[str, Any]]:
        with aws_errors(THE_TABLE):
            try:
                if len(writes) == 1 and "Put" in writes[0]:
                    self._client.put_item(**writes[0]["Put"])
                else:
                    self._client.transact_write_items(TransactItems=writes)  # type: ignore[arg-type]
                return []
            except ClientError as error:
                return _reasons(error)


def _reasons(error: ClientError) -> list[Mapping[str, Any]]:
    """Why nothing was written, per write; anything but a failed condition or a conflict is raised on."""
    code, response = error_code(error), error.response
    if code == f"{CONDITION_FAILED}Exception":
        return [{"Code": CONDITION_FAILED, "Item": response.get("Item")}]
    if code == f"{CONFLICT}Exception":
        return [{"Code": CONFLICT}]
    reasons: list[Mapping[str, Any]] = list(response.get("CancellationReasons", []))
    if code != TRANSACTION_CANCELED or not {reason.get("Code") for reason in reasons} & {CONDITION_FAILED, CONFLICT}:
        raise error
    return reasons


def _is_ours(reasons: Sequence[Mapping[str, Any]], write: str) -> bool:
    """Whether the record that stands in the way is the one we are writing: our first try's answer was lost."""
    standing = reasons[0].get("Item") if reasons else None
    return standing is not None and bool(standing["write"]["S"] == write)


def _new_write() -> str:
    return secrets.token_hex(16)


def _execution_key(contract_id: str) -> Item:
    return {"pk": {"S": f"EXEC#{contract_id}"}, "sk": {"S": "EXEC"}}


def _claim_key(claim: str) -> Item:
    return {"pk": {"S": f"CLAIM#{claim}"}, "sk": {"S": "CLAIM"}}


def _ledger_item(row: LedgerRow) -> Item:
    month = datetime.fromtimestamp(row.at_ms // 1000, UTC).strftime("%Y-%m")
    sort = f"{row.at_ms:015d}#{row.contract_id}#{row.generation}#{row.kind}#{row.transaction}"
    return {"pk": {"S": f"LEDGER#{month}"}, "sk": {"S": sort}, "row": {"S": canonical(asdict(row)).decode()}}


def to_item(execution: Execution, write: str) -> Item:
    """A record as it is written."""
    record = {key: value for key, value in flat(execution).items() if key not in OWN_ATTRIBUTES}
    item: Item = {
        **_execution_key(execution.contract_id),
        "state": {"S": execution.state},
        "version": {"N": str(execution.version)},
        "lease": {"S": execution.lease.token},
        "lease_until": {"N": str(execution.lease.until_ms)},
        "write": {"S": write},
        "record": {"S": canonical(record).decode()},
        "expires_at": {"N": str(execution.expires_at)},
    }
    told = [{"S": canonical(dict(one)).decode()} for one in execution.attempt.items]
    item |= {"told": {"L": told}} if told else {}
    return item | ({"payment": {"S": execution.payment.document}} if execution.payment.document else {})


def from_item(item: Mapping[str, Any]) -> Execution:
    """A stored record."""
    own = {
        "state": item["state"]["S"],
        "version": int(item["version"]["N"]),
        "lease": item["lease"]["S"],
        "lease_until_ms": int(item["lease_until"]["N"]),
        "payment": item["payment"]["S"] if "payment" in item else "",
        "items": [loads(one["S"]) for one in item["told"]["L"]] if "told" in item else [],
    }
    return from_flat({**loads(item["record"]["S"]), **own})
