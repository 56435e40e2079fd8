"""JSON values of the kernel door: in their row, or in the bucket under `kernel/<execution>/…` when they are long.

They are written as JSON text as they came, so that big integers, floats and the order of members come back unchanged.
Objects are written before the transaction that names them; one whose transaction fails is never read and ages out.
"""

from __future__ import annotations

import json
import secrets
from typing import Final

from piecework.aws.attributes import Item
from piecework.aws.bucket import S3Of, put_once
from piecework.aws.failing import aws_errors
from piecework.jsons import Json
from piecework.jsons.stored import record_of

INLINE_BYTES: Final = 100_000  # a row holds 400 KB, but 300 KB written twice would be half of a partition's second
THE_BUCKET: Final = "the bucket"
_AS_TEXT: Final = json.JSONEncoder(separators=(",", ":"), default=record_of)


class KernelValues:
    """Packs values into attributes, and reads them back."""

    def __init__(self, s3: S3Of, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    def packed(self, folder: str, value: Json) -> Item:
        """The attributes that hold a value: `body`, or `far` for a long one."""
        text = text_of(value)
        if len(text) <= INLINE_BYTES:
            return {"body": text}
        place = f"kernel/{folder}/{secrets.token_hex(16)}"
        put_once(self._s3(), self._bucket, place, text.encode(), "application/json")
        return {"far": place, "bytes": len(text)}

    def value(self, item: Item) -> Json:
        """The value that an item's attributes hold."""
        if "body" in item:
            return json.loads(item["body"])
        with aws_errors(THE_BUCKET):
            answer = self._s3().get_object(Bucket=self._bucket, Key=item["far"])
            return json.loads(answer["Body"].read())

    def drop(self, item: Item) -> None:
        """Remove the object of an item that is going to be removed."""
        if "far" in item:
            with aws_errors(THE_BUCKET):
                self._s3().delete_object(Bucket=self._bucket, Key=item["far"])


def text_of(value: Json) -> str:
    """A value as ASCII text: one character is one byte, and a half of a surrogate pair does no harm.

    A dataclass in it is written as its record.
    """
    return _AS_TEXT.encode(value)
