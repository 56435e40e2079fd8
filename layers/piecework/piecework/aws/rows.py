"""Requests to the kernel table, in the few forms the door needs; what its rows are called is in kernel_keys.py.

A conditional write answers whether its condition held; one that was sent again because its answer was lost recognises
what its first try wrote. A single write that meets a transaction on its item is refused
by DynamoDB and repeated here: transactions take milliseconds.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import uniform
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.errors import Unavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]
Write = dict[str, Any]
Key = tuple[str, str]  # pk, sk

THE_TABLE: Final = "the kernel table"
CONDITION_FAILED: Final = "ConditionalCheckFailed"
CONFLICT: Final = "TransactionConflict"
PASSING: Final = frozenset({CONFLICT, "ThrottlingError", "ProvisionedThroughputExceeded"})  # the next try may hold
TRANSACTION_CANCELED: Final = "TransactionCanceledException"
READ_AT_ONCE: Final = 100  # keys of a batch read
DELETED_AT_ONCE: Final = 25  # keys of a batch write
UNCLAIMED: Final = (
    "attribute_exists(pk) AND (attribute_not_exists(claimed_until) OR claimed_until <= :now OR claim = :token)"
)
SAME_AND_OPEN: Final = "generation = :generation AND is_open = :true"
SAME_LEASE: Final = "generation = :generation AND lease_until = :lease AND is_open = :true"
DOUBT: Final = "SET doubted_lease = :lease, doubted_until = :until"
_SET: Final = re.compile(r"(\w+) = (:\w+)")
TRIES: Final = 10
GAP_SECONDS: Final = 0.05


class Unmet(NamedTuple):
    """A condition that did not hold: the row as it stands, {} for none, and whether the request was sent before."""

    standing: Item
    is_repeat: bool


class Rows:
    """The table's rows, read strongly consistent."""

    def __init__(self, client: DynamoDBClient, table: str, sleep: Callable[[float], None] = real_sleep) -> None:
        self.client, self.table, self._sleep = client, table, sleep

    def get(self, key: Key) -> Item | None:
        """One row."""
        with aws_errors(THE_TABLE):
            answer = self.client.get_item(TableName=self.table, Key=at(key), ConsistentRead=True)
        return dict(answer["Item"]) if "Item" in answer else None

    def find(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Those of the rows that are there; up to 100 in one request, if they weigh less than 16 MB."""
        found: dict[Key, Item] = {}
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), READ_AT_ONCE):
            self._find([at(key) for key in wanted[start : start + READ_AT_ONCE]], found)
        return found

    def query(
        self, pk: str, *, after: str = "", before: str = "", page: int, newest_first: bool = False, **more: Any
    ) -> Iterator[Item]:
        """The rows of a partition strictly between two sort keys, page by page as they are asked for."""
        condition, values = "pk = :pk", {":pk": s(pk)}
        if after and before:
            condition += " AND sk BETWEEN :after AND :before"
        elif after or before:
            condition += " AND sk > :after" if after else " AND sk < :before"
        values |= {name: s(bound) for name, bound in ((":after", after), (":before", before)) if bound}
        asked: dict[str, Any] = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values, **more}
        asked |= {"ScanIndexForward": not newest_first, "ConsistentRead": True, "Limit": page}
        for row in self.pages(asked):
            if row["sk"]["S"] not in (after, before):
                yield row

    def pages(self, asked: dict[str, Any]) -> Iterator[Item]:
        """Every row of a query; a page is fetched when its first row is asked for."""
        while True:
            with aws_errors(THE_TABLE):
                answer = self.client.query(TableName=self.table, **asked)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            asked = asked | {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def put(self, item: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Write a row; False when the condition did not hold, and it is not our own first try that stands."""
        if condition:
            item = {"write": s(secrets.token_hex(8)), **item}
        given: Write = {"TableName": self.table, "Item": item, **_condition(condition, values)}
        answer = self._single(lambda: self.client.put_item(**given))
        return not isinstance(answer, Unmet) or answer.standing.get("write") == item.get("write")

    def update(
        self,
        key: Key,
        expression: str,
        values: Mapping[str, Any],
        condition: str = "",
        names: Mapping[str, str] | None = None,
    ) -> Item | None:
        """Change a row; the new one, or None when the condition did not hold and did not before a repeat."""
        given: Write = {
            "TableName": self.table,
            "Key": at(key),
            "UpdateExpression": expression,
            "ReturnValues": "ALL_NEW",
            **_condition(condition, values),
            **({"ExpressionAttributeNames": dict(names)} if names else {}),
        }
        return self._updated(given)

    def update_each(self, writes: Sequence[Write]) -> list[bool]:
        """Change up to 100 rows that have nothing to do with each other; per row, whether its condition held."""
        held: dict[int, bool] = {}
        for attempt in range(TRIES):
            left = [number for number in range(len(writes)) if number not in held]
            reasons = self.transact([writes[number] for number in left])
            if not reasons:
                return [held.get(number, True) for number in range(len(writes))]
            refused = [number for number, reason in zip(left, reasons, strict=True) if _is_refusal(reason)]
            held |= dict.fromkeys(refused, False)
            if len(held) == len(writes):
                return [False] * len(writes)
            if not refused:
                self.pause(attempt)
        raise Unavailable("the kernel table is busy; try again")

    def claim(self, key: Key, now_ms: int, until_ms: int) -> bool:
        """Mark a row as somebody's for a while; False when it is gone, or another's mark still counts."""
        token = secrets.token_hex(8)  # by which a repeated request recognises its first try
        values = {":until": n(until_ms), ":now": n(now_ms), ":token": s(token)}
        expression = "SET claimed_until = :until, claim = :token"
        return self.update(key, expression, values, UNCLAIMED) is not None

    def doubt(self, key: Key, generation: int, lease_ms: int, until_ms: int) -> bool:
        """Note that an open connection's lease seems to lapse; False when it has just been moved."""
        values = {
            ":generation": n(generation),
            ":lease": n(lease_ms),
            ":until": n(until_ms),
            ":true": {"BOOL": True},
        }
        return self.update(key, DOUBT, values, SAME_LEASE) is not None

    def set_lease(self, key: Key, generation: int, until_ms: int, *, is_open: bool) -> bool:
        """Move an open connection's lease, or end it; False when it is of another generation, or ended."""
        given = lease_write(self.table, key, generation, until_ms, is_open=is_open)
        return self._updated(given | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}) is not None

    def set_leases(self, connections: Sequence[tuple[Key, int]], until_ms: int) -> list[bool]:
        """Move many leases at once."""
        if len(connections) == 1:  # where one stream has a process of its own, half as expensive
            [(key, generation)] = connections
            return [self.set_lease(key, generation, until_ms, is_open=True)]
        writes = [lease_write(self.table, key, generation, until_ms, is_open=True) for key, generation in connections]
        return self.update_each([{"Update": write} for write in writes])

    def unclaim(self, key: Key) -> None:
        """Take the mark off a row that is still there."""
        self.update(key, "REMOVE claimed_until, claim", {}, "attribute_exists(pk)")

    def delete(self, key: Key, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Remove a row; False when the condition did not hold, unless a repeat finds the row gone."""
        given: Write = {"TableName": self.table, "Key": at(key), **_condition(condition, values)}
        answer = self._single(lambda: self.client.delete_item(**given))
        return not isinstance(answer, Unmet) or (answer.is_repeat and not answer.standing)

    def put_all(self, items: Sequence[Item]) -> None:
        """Write rows that nothing depends on yet."""
        self._write_all([{"PutRequest": {"Item": item}} for item in items])

    def delete_all(self, keys: Sequence[Key]) -> None:
        """Remove rows that nothing depends on any more."""
        self._write_all([{"DeleteRequest": {"Key": at(key)}} for key in dict.fromkeys(keys)])

    def transact(self, writes: Sequence[Write]) -> list[Mapping[str, Any]]:
        """Write all or nothing; else the reasons per write: a condition failed, others were met, or it was too much."""
        with aws_errors(THE_TABLE):
            try:
                self.client.transact_write_items(TransactItems=writes)  # type: ignore[arg-type]
                return []
            except ClientError as error:
                return _reasons(error)

    def pause(self, attempt: int) -> None:
        """Wait for whom we met."""
        self._sleep(uniform(0, GAP_SECONDS * (attempt + 1) / TRIES))  # noqa: S311  # jitter is no secret

    def _updated(self, given: Write) -> Item | None:
        """The row, where the request asked for it; None when its condition did not hold and did not before a repeat."""
        answer = self._single(lambda: self.client.update_item(**given))
        if isinstance(answer, Unmet):
            return answer.standing if answer.is_repeat and _has_landed(given, answer.standing) else None
        return dict(answer.get("Attributes", {}))

    def _single(self, call: Callable[[], Any]) -> Any:
        """A call's answer, or why its condition did not hold."""
        for attempt in range(TRIES):
            with aws_errors(THE_TABLE):
                try:
                    return call()
                except ClientError as error:
                    if error_code(error) == f"{CONDITION_FAILED}Exception":
                        return _unmet(error)
                    if error_code(error) != f"{CONFLICT}Exception":
                        raise
            self.pause(attempt)
        raise Unavailable("the kernel table is busy; try again")

    def _find(self, keys: list[Item], found: dict[Key, Item]) -> None:
        for attempt in range(TRIES):
            wanted: Any = {self.table: {"Keys": keys, "ConsistentRead": True}}
            with aws_errors(THE_TABLE):
                answer = self.client.batch_get_item(RequestItems=wanted)
            found |= {(item["pk"]["S"], item["sk"]["S"]): dict(item) for item in answer["Responses"][self.table]}
            left: Any = answer.get("UnprocessedKeys", {}).get(self.table)
            if not left:
                return
            if len(left["Keys"]) == len(keys):
                self.pause(attempt)
            keys = left["Keys"]
        raise Unavailable("the kernel table is busy; try again")

    def _write_all(self, writes: list[Write]) -> None:
        tries = 0
        while writes:
            asked: Any = {self.table: writes[:DELETED_AT_ONCE]}
            with aws_errors(THE_TABLE):
                answer = self.client.batch_write_item(RequestItems=asked)
            left: Any = answer.get("UnprocessedItems", {}).get(self.table, [])
            if left:
                tries += 1
                self.pause(tries)
            if tries > TRIES:
                raise Unavailable("the kernel table is busy; try again")
            writes = [*left, *writes[DELETED_AT_ONCE:]]


def s(text: str) -> Item:
    """A text as an attribute."""
    return {"S": text}


def n(number: int | float) -> Item:
    """A number as an attribute."""
    return {"N": str(number)}


def _is_refusal(reason: Mapping[str, Any]) -> bool:
    return bool(reason.get("Code") == CONDITION_FAILED)


def claimed_until(item: Mapping[str, Any]) -> int:
    """How long a row is somebody's; rows of earlier versions are nobody's."""
    return int(item["claimed_until"]["N"]) if "claimed_until" in item else 0


def doubted_until(item: Mapping[str, Any]) -> int:
    """How long a connection's stream may still answer; a doubt counts for the lease that it was noted for."""
    if "doubted_lease" not in item or item["doubted_lease"] != item["lease_until"]:
        return 0
    return int(item["doubted_until"]["N"])


def lease_write(table: str, key: Key, generation: int, until_ms: int, *, is_open: bool) -> Write:
    """The update that moves an open connection's lease, or ends it."""
    return {
        "TableName": table,
        "Key": at(key),
        "UpdateExpression": "SET lease_until = :until, is_open = :open",
        "ConditionExpression": SAME_AND_OPEN,
        "ExpressionAttributeValues": {
            ":until": n(until_ms),
            ":open": {"BOOL": is_open},
            ":generation": n(generation),
            ":true": {"BOOL": True},
        },
    }


def at(key: Key) -> Item:
    """A key as DynamoDB wants it."""
    return {"pk": s(key[0]), "sk": s(key[1])}


def _condition(condition: str, values: Mapping[str, Any] | None) -> Write:
    given: Write = {}
    if condition:
        given = {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return given | ({"ExpressionAttributeValues": dict(values)} if values else {})


def _unmet(error: ClientError) -> Unmet:
    standing: Any = error.response.get("Item") or {}
    metadata: Any = error.response.get("ResponseMetadata", {})
    return Unmet(dict(standing), metadata.get("RetryAttempts", 0) > 0)


def _has_landed(given: Write, standing: Item) -> bool:
    """Whether a row is what a `SET` would have made of it: the first try was written, and its answer was lost."""
    sets, values = _SET.findall(given["UpdateExpression"]), given.get("ExpressionAttributeValues", {})
    return bool(sets) and all(standing.get(name) == values[value] for name, value in sets)


def _reasons(error: ClientError) -> list[Mapping[str, Any]]:
    """Why nothing was written, per write; anything but a failed condition or what passes is raised on."""
    if error_code(error) != TRANSACTION_CANCELED:
        raise error
    reasons: list[Mapping[str, Any]] = list(error.response.get("CancellationReasons", []))
    if not {reason.get("Code") for reason in reasons} & {CONDITION_FAILED, *PASSING}:
        raise error
    return reasons
