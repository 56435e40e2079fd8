"""The results table: pieces and their steps, one item each, every write conditional.

Attributes: `pk` (key), `state`, `claim`, `lease_until` (ms), `fingerprint`, `exact`, `result` (bytes) or `pointer`,
`reason_code`, `reason`, `expires_at` (s; the table's TTL). TTL deletes late, so every condition treats an expired item
as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.clock import now_in_ms
from piecework.durable.pieces import Piece, PieceTable, State
from piecework.durable.steps import StepTable
from piecework.errors import LeaseLost, Unavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

NOBODY_HOLDS_IT: Final = (
    "attribute_not_exists(pk) OR expires_at <= :now_s OR #state = :released"
    " OR (#state = :running AND lease_until <= :now_ms AND fingerprint = :fingerprint"
    " AND (attribute_not_exists(exact) OR exact = :exact))"
)
I_HOLD_IT: Final = "#state = :running AND claim = :claim"
NOT_YET_WRITTEN: Final = "attribute_not_exists(pk) OR expires_at <= :now_s"
CONDITION_FAILED: Final = "ConditionalCheckFailedException"
THE_TABLE: Final = "the results table"


class PiecesTable(PieceTable, StepTable):
    """Pieces and steps in DynamoDB."""

    def __init__(self, client: DynamoDBClient, table: str, clock: Callable[[], int] = now_in_ms) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def claim(self, key: str, piece: Piece, now_ms: int) -> tuple[bool, Piece | None]:
        values = {
            ":now_s": {"N": str(now_ms // 1000)},
            ":now_ms": {"N": str(now_ms)},
            ":released": {"S": State.RELEASED},
            ":running": {"S": State.RUNNING},
            ":fingerprint": {"S": piece.fingerprint},
            ":exact": {"S": piece.exact or piece.fingerprint},
        }
        replaced, standing = self._put(to_item(key, piece), NOBODY_HOLDS_IT, values, {"#state": "state"})
        if standing is None:
            return True, from_item(replaced) if replaced else None
        found = from_item(standing)
        return found.token == piece.token, found  # our own token: the first try was written, its answer was lost

    def renew(self, key: str, token: str, lease_until_ms: int) -> None:
        self._update(key, token, "SET lease_until = :lease", {":lease": {"N": str(lease_until_ms)}})

    def record(self, key: str, token: str, piece: Piece) -> None:
        kept = ("result", {"B": piece.body}) if piece.pointer is None else ("pointer", {"S": piece.pointer})
        values: Item = {
            ":state": {"S": piece.state},
            ":expires": {"N": str(piece.expires_at)},
            ":kept": kept[1],
        }
        update = f"SET #state = :state, expires_at = :expires, {kept[0]} = :kept REMOVE lease_until"
        self._update(key, token, update.replace(" result =", " #result ="), values, landed=piece.state)

    def release(self, key: str, token: str, reason_code: str, reason: str) -> None:
        values: Item = {":state": {"S": State.RELEASED}, ":code": {"S": reason_code}, ":reason": {"S": reason}}
        update = "SET #state = :state, reason_code = :code, reason = :reason REMOVE lease_until"
        self._update(key, token, update, values, landed=State.RELEASED)

    def read(self, key: str) -> Piece | None:
        item = self._get(key)
        return from_item(item) if item else None

    def find(self, key: str) -> bytes | None:
        item = self._get(key)
        if item is None or int(item["expires_at"]["N"]) * 1000 <= self._clock():
            return None
        return bytes(item["result"]["B"])

    def record_once(self, key: str, body: bytes, expires_at: int) -> bytes:
        item: Item = {"pk": {"S": key}, "result": {"B": body}, "expires_at": {"N": str(expires_at)}}
        values: Item = {":now_s": {"N": str(self._clock() // 1000)}}
        _, standing = self._put(item, NOT_YET_WRITTEN, values, {})
        return body if standing is None else bytes(standing["result"]["B"])

    def _get(self, key: str) -> Item | None:
        with aws_errors(THE_TABLE):
            answer = self._client.get_item(TableName=self._table, Key={"pk": {"S": key}}, ConsistentRead=True)
        return dict(answer["Item"]) if "Item" in answer else None

    def _put(
        self, item: Item, condition: str, values: Item, names: Mapping[str, str]
    ) -> tuple[Item | None, Item | None]:
        """Put conditionally: (the item replaced, None), or (None, the item that stands)."""
        with aws_errors(THE_TABLE):
            try:
                answer = self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=values,
                    **({"ExpressionAttributeNames": names} if names else {}),  # type: ignore[arg-type]
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return answer.get("Attributes"), None
            except ClientError as error:
                standing = _standing(error)
        return None, standing

    def _update(self, key: str, token: str, update: str, values: Item, landed: State | None = None) -> None:
        names = {"#state": "state"} | ({"#result": "result"} if "#result" in update else {})
        with aws_errors(THE_TABLE):
            try:
                self._client.update_item(
                    TableName=self._table,
                    Key={"pk": {"S": key}},
                    UpdateExpression=update,
                    ConditionExpression=I_HOLD_IT,
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values | {":running": {"S": State.RUNNING}, ":claim": {"S": token}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return
            except ClientError as error:
                standing = _standing(error, may_be_absent=True)
        if not (standing and standing["claim"]["S"] == token and standing["state"]["S"] == landed):
            raise LeaseLost("another runner has taken this piece over")


def _standing(error: ClientError, may_be_absent: bool = False) -> Item | None:
    """What stood in the way of a conditional write; anything else but that is raised on."""
    if error_code(error) != CONDITION_FAILED:
        raise error
    item = error.response.get("Item")
    if item is None and not may_be_absent:
        raise Unavailable("the results table changed under this request; try again") from error
    return dict(item) if item else None  # type: ignore[call-overload]


def to_item(key: str, piece: Piece) -> Item:
    """A running piece as it is claimed; later states are written by updates."""
    return {
        "pk": {"S": key},
        "state": {"S": piece.state},
        "claim": {"S": piece.token},
        "fingerprint": {"S": piece.fingerprint},
        **({"exact": {"S": piece.exact}} if piece.exact else {}),
        "lease_until": {"N": str(piece.lease_until_ms)},
        "expires_at": {"N": str(piece.expires_at)},
    }


def from_item(item: Mapping[str, Any]) -> Piece:
    """A stored piece."""
    return Piece(
        state=State(item["state"]["S"]),
        token=item["claim"]["S"],
        fingerprint=item["fingerprint"]["S"],
        lease_until_ms=int(item["lease_until"]["N"]) if "lease_until" in item else 0,
        expires_at=int(item["expires_at"]["N"]),
        body=bytes(item["result"]["B"]) if "result" in item else None,
        pointer=item["pointer"]["S"] if "pointer" in item else None,
        reason_code=item["reason_code"]["S"] if "reason_code" in item else "",
        reason=item["reason"]["S"] if "reason" in item else "",
        exact=item["exact"]["S"] if "exact" in item else "",
    )
