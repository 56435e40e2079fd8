"""One gateway to DynamoDB for every adapter: get, find, query, put, update, delete, transact, in plain values.

A conditional write answers whether it was done: its condition held, or its own first try had been written and the
answer was lost (`writes.py`). A single write that meets a transaction on its row is refused by DynamoDB and repeated
here, and so is a transaction that meets another: they take milliseconds. The next pages of a query and the rows that a
batch left over are asked for too. Whatever else AWS answers becomes one of our errors, which names the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from piecework.aws.attributes import Item, plain, typed
from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.aws.writes import Delete, Key, Put, Update, Values, Write, at, expressed
from piecework.chance import uniform
from piecework.errors import Unavailable

if TYPE_CHECKING:
    from piecework.aws.transport.dynamodb import DynamoDB

    Client = DynamoDB


THE_RESULTS: Final = "the results table"
THE_WORK: Final = "the work table"
THE_KERNEL: Final = "the kernel table"
CONDITION_FAILED: Final = "ConditionalCheckFailed"
CONFLICT: Final = "TransactionConflict"
PASSING: Final = frozenset({CONFLICT, "ThrottlingError", "ProvisionedThroughputExceeded"})  # the next try may hold
TRANSACTION_CANCELED: Final = "TransactionCanceledException"
READ_AT_ONCE: Final = 100  # keys of a batch read
WRITTEN_AT_ONCE: Final = 25  # rows of a batch write
TRIES: Final = 10
GAP_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: whether it was done, and the row that was asked for or that failed its condition."""

    done: bool
    row: Item  # {} when the row does not exist, or was not asked for


class Index(NamedTuple):
    """The keys that a query goes by."""

    name: str
    pk: str
    sk: str


PRIMARY: Final = Index("", "pk", "sk")


class Part(NamedTuple):
    """What one request reads of a partition: rows, and the sort key up to which it has looked; empty at the end."""

    rows: list[Item]
    read_to: str


class Table:
    """A table's rows, read strongly consistent; `what` names it in errors.

    Every method raises Unavailable when the table is throttled, busy or out of reach, and RequestRejected for what AWS
    will never take.
    """

    def __init__(self, client: Client, name: str, what: str, sleep: Callable[[float], None] = real_sleep) -> None:
        self._client, self.name, self._what, self._sleep = client, name, what, sleep

    def get(self, *key: str) -> Item | None:
        """The row at a key, or None."""
        with aws_errors(self._what):
            answer = self._client.get_item(TableName=self.name, Key=typed(at(key)), ConsistentRead=True)
        return plain(answer["Item"]) if "Item" in answer else None

    def find(self, keys: Sequence[Key], *, only: str = "", hint: bool = False) -> dict[Key, Item]:
        """Those of the rows that are there; up to 100 in one request, if they weigh less than 16 MB.

        A `hint` is read eventually consistent, and lacks the rows that DynamoDB was too busy to read.
        """
        found: dict[Key, Item] = {}
        wanted = list(dict.fromkeys(keys))
        how: Item = ({} if hint else {"ConsistentRead": True}) | ({"ProjectionExpression": only} if only else {})
        how |= expressed(only, {})
        for start in range(0, len(wanted), READ_AT_ONCE):
            left = self._found([typed(at(key)) for key in wanted[start : start + READ_AT_ONCE]], how, found)
            if left and not hint:
                self._find_rest(left, how, found)
        return found

    def query(
        self,
        partition: str,
        *,
        after: str = "",
        before: str = "",
        page: int = 0,
        newest_first: bool = False,
        consistent: bool = True,
        only: str = "",
        index: Index = PRIMARY,
        where: str = "",
        values: Values | None = None,
    ) -> Iterator[Item]:
        """The rows of a partition strictly between two sort keys; a page is fetched when its first row is asked for."""
        asked = _asked(
            partition,
            after,
            before,
            index,
            where,
            values or {},
            page,
            only,
            newest_first=newest_first,
            consistent=consistent,
        )
        return (row for row in self._pages(asked) if _is_between(row, index, after, before))

    def part(
        self,
        partition: str,
        page: int,
        *,
        after: str = "",
        before: str = "",
        newest_first: bool = False,
        index: Index = PRIMARY,
        where: str = "",
        values: Values | None = None,
    ) -> Part:
        """The same in one request, which looks at `page` rows, fewer where they are long, and leaves out some."""
        how = {"newest_first": newest_first, "consistent": True}
        asked = _asked(partition, after, before, index, where, values or {}, page, "", **how)
        with aws_errors(self._what):
            answer = self._client.query(TableName=self.name, **asked)
        rows = [row for row in map(plain, answer["Items"]) if _is_between(row, index, after, before)]
        last = plain(answer["LastEvaluatedKey"]) if "LastEvaluatedKey" in answer else {}
        return Part(rows, str(last.get(index.sk, "")))

    def put(
        self,
        item: Item,
        condition: str = "",
        values: Values | None = None,
        *,
        ours: Values | None = None,
        returning: bool = False,
    ) -> Written:
        """Write a whole row; with `returning`, the answer holds the row that it replaced."""
        put = Put(item, condition=condition, values=values or {}, ours=ours or {})
        return self._single(put, "ALL_OLD" if returning else "")

    def update(
        self,
        key: Key,
        expression: str,
        values: Values,
        condition: str = "",
        *,
        ours: Values | None = None,
        names: Mapping[str, str] | None = None,
        returning: bool = False,
    ) -> Written:
        """Change a row's attributes; with `returning`, the answer holds the row after the change."""
        update = Update(key, expression, condition=condition, values=values, ours=ours or {}, names=names or {})
        return self._single(update, "ALL_NEW" if returning else "")

    def delete(self, key: Key, condition: str = "", values: Values | None = None) -> Written:
        """Remove a row."""
        return self._single(Delete(key, condition=condition, values=values or {}))

    def put_all(self, items: Sequence[Item]) -> None:
        """Write rows that nothing depends on yet, 25 in one request."""
        self._write_all([{"PutRequest": {"Item": typed(item)}} for item in items])

    def delete_all(self, keys: Sequence[Key]) -> None:
        """Remove rows that nothing depends on any more, 25 in one request."""
        self._write_all([{"DeleteRequest": {"Key": typed(at(key))}} for key in dict.fromkeys(keys)])

    def transact(self, writes: Sequence[Write], *, tries: int = TRIES) -> list[bool]:
        """Write all or nothing: [] when it is done, else for each write whether its condition failed.

        With one try, a transaction that met others or was too much answers so too: no condition failed.
        """
        if len(writes) == 1:  # costs half of a transaction
            return [] if self._single(writes[0]).done else [True]
        for attempt in range(tries):
            reasons = self._reasons(writes)
            if not reasons or any(map(_is_own, writes, reasons)):
                return []
            failed = [reason.get("Code") == CONDITION_FAILED for reason in reasons]
            if any(failed) or tries == 1:
                return failed
            self.pause(attempt)
        raise self.busy()

    def pause(self, attempt: int) -> None:
        """Wait a moment for the others that write the same rows."""
        self._sleep(uniform(0, GAP_SECONDS * (attempt + 1) / TRIES))

    def busy(self) -> Unavailable:
        """The error to raise when every try met others."""
        return Unavailable(f"{self._what} is busy; try again")

    def changed(self) -> Unavailable:
        """The error to raise when a condition failed and no row is there."""
        return Unavailable(f"{self._what} changed under this request; try again")

    def _single(self, write: Write, returning: str = "") -> Written:
        given = write.given(self.name) | ({"ReturnValues": returning} if returning else {})
        given |= {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if write.condition else {}
        is_repeat = False
        for attempt in range(TRIES):
            with aws_errors(self._what):
                try:
                    return Written(True, plain(self._call(write)(**given).get("Attributes", {})))
                except ServiceRefused as refused:
                    is_repeat = is_repeat or refused.retries > 0  # sent before, and the answer was lost
                    if refused.code == f"{CONDITION_FAILED}Exception":
                        row = plain(refused.answer.get("Item") or {})
                        return Written(write.is_done(row, is_repeat=is_repeat), row)
                    if refused.code != f"{CONFLICT}Exception":
                        raise
            self.pause(attempt)
        raise self.busy()

    def _call(self, write: Write) -> Callable[..., Mapping[str, Any]]:
        match write:
            case Put():
                return self._client.put_item
            case Update():
                return self._client.update_item
        return self._client.delete_item

    def _find_rest(self, keys: list[Item], how: Item, found: dict[Key, Item]) -> None:
        for attempt in range(TRIES - 1):
            self.pause(attempt)
            keys = self._found(keys, how, found)
            if not keys:
                return
        raise self.busy()

    def _found(self, keys: list[Item], how: Item, found: dict[Key, Item]) -> list[Item]:
        """Add the rows of one batch read to what was found; the keys that it left over."""
        wanted: Any = {self.name: {"Keys": keys, **how}}
        with aws_errors(self._what):
            answer = self._client.batch_get_item(RequestItems=wanted)
        rows = map(plain, answer["Responses"].get(self.name, []))
        found |= {tuple(row[name] for name in ("pk", "sk") if name in row): row for row in rows}
        left: Any = answer.get("UnprocessedKeys", {}).get(self.name, {})
        return list(left.get("Keys", []))

    def _pages(self, asked: Item) -> Iterator[Item]:
        while True:
            with aws_errors(self._what):
                answer = self._client.query(TableName=self.name, **asked)
            yield from map(plain, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            asked = asked | {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _write_all(self, writes: list[Item]) -> None:
        tries = 0
        while writes:
            asked: Any = {self.name: writes[:WRITTEN_AT_ONCE]}
            with aws_errors(self._what):
                answer = self._client.batch_write_item(RequestItems=asked)
            left: Any = answer.get("UnprocessedItems", {}).get(self.name, [])
            if left:
                tries += 1
                self.pause(tries)
            if tries > TRIES:
                raise self.busy()
            writes = [*left, *writes[WRITTEN_AT_ONCE:]]

    def _reasons(self, writes: Sequence[Write]) -> list[Mapping[str, Any]]:
        """Why nothing was written, per write; anything but a failed condition or what passes is raised on."""
        with aws_errors(self._what):
            try:
                self._client.transact_write_items(TransactItems=[_part(write, self.name) for write in writes])
                return []
            except ServiceRefused as refused:
                reasons: list[Mapping[str, Any]] = list(refused.answer.get("CancellationReasons") or ())
                codes = {str(reason.get("Code")) for reason in reasons}
                if refused.code != TRANSACTION_CANCELED or codes.isdisjoint({CONDITION_FAILED, *PASSING}):
                    raise
        return reasons


def _asked(
    partition: str,
    after: str,
    before: str,
    index: Index,
    where: str,
    values: Values,
    page: int,
    only: str,
    *,
    newest_first: bool,
    consistent: bool,
) -> Item:
    """A query's request, but for its table."""
    condition = f"{index.pk} = :pk"
    if after and before:
        condition += f" AND {index.sk} BETWEEN :after AND :before"
    elif after or before:
        condition += f" AND {index.sk} > :after" if after else f" AND {index.sk} < :before"
    bounds = {name: bound for name, bound in (("after", after), ("before", before)) if bound}
    return {
        "KeyConditionExpression": condition,
        "ScanIndexForward": not newest_first,
        **expressed(f"{where} {only}", {"pk": partition, **bounds, **values}),
        **({"IndexName": index.name} if index.name else {"ConsistentRead": consistent}),
        **({"Limit": page} if page else {}),
        **({"ProjectionExpression": only} if only else {}),
        **({"FilterExpression": where} if where else {}),
    }


def _is_between(row: Item, index: Index, after: str, before: str) -> bool:
    """Whether a row is not a bound; `BETWEEN` includes its bounds."""
    return row.get(index.sk) not in {after, before} - {""}


def _part(write: Write, table: str) -> Any:
    """A write in a transaction; where a token can tell whose the row in the way is, it is asked for."""
    asked = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if _has_token(write) else {}
    return {type(write).__name__: write.given(table) | asked}


def _has_token(write: Write) -> bool:
    return isinstance(write, Put) and bool(write.condition) and "write" in write.item


def _is_own(write: Write, reason: Mapping[str, Any]) -> bool:
    """Whether the row in the way holds the token of this very transaction."""
    standing = reason.get("Item")
    return _has_token(write) and standing is not None and write.is_done(plain(standing), is_repeat=False)
