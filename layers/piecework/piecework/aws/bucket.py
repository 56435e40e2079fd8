"""The bucket: evidence under `evidence/<digest>/<token>`, large results under their claim's own key."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep as real_sleep
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.chance import uniform
from piecework.durable.artifacts import EvidenceStore, Served
from piecework.durable.pieces import Overflow
from piecework.errors import Unavailable

if TYPE_CHECKING:
    from piecework.aws.transport.s3 import S3

ABSENT: Final = frozenset({"NoSuchKey", "404", "AccessDenied"})  # without ListBucket, S3 says AccessDenied for absent
ALREADY_WRITTEN: Final = "PreconditionFailed"
UNDER_WAY: Final = "ConditionalRequestConflict"  # 409: another write of this key has not ended
CONFLICT_TRIES: Final = 8  # with pauses that double: 5 s in all, longer than S3 takes for what we write
CONFLICT_GAP_SECONDS: Final = 0.04
THE_BUCKET: Final = "the bucket"

KEEP_DAYS: Final = "keep-days"  # the tag that the template's lifecycle rules look at

S3Of = Callable[[], "S3"]  # the client is made on the first call that needs it


def kept_for(days: int) -> dict[str, Any]:
    """The tag that tells the bucket's rules for how many days an object was promised; empty for 0."""
    return {"Tagging": f"{KEEP_DAYS}={days}"} if days else {}


def put_once(
    s3: S3,
    bucket: str,
    key: str,
    body: bytes,
    mime: str,
    sleep: Callable[[float], None] = real_sleep,
    **more: Any,
) -> None:
    """Write an object that must not exist.

    Our keys hold random tokens or digests of their content, so what stands, or is just being written, is our own
    earlier try. One that is under way may still fail: the write is tried again until S3 says which it was.

    Raises:
        Unavailable: S3 is out of reach, or an earlier try never came to an end.
    """
    gap = CONFLICT_GAP_SECONDS
    for _ in range(CONFLICT_TRIES):
        with aws_errors(THE_BUCKET):
            try:
                s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=mime, IfNoneMatch="*", **more)
                return
            except ServiceRefused as refused:
                if refused.code == ALREADY_WRITTEN:
                    return
                if refused.code != UNDER_WAY:
                    raise
        sleep(uniform(gap / 2, gap))
        gap *= 2
    raise Unavailable(f"{THE_BUCKET} is busy; try again")


class EvidenceBucket(EvidenceStore):
    """Evidence in S3."""

    def __init__(self, s3: S3Of, bucket: str, *, keep_days: int = 0) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._keep_days = keep_days

    def put(self, digest: str, token: str, data: bytes, mime: str) -> None:
        kept = kept_for(self._keep_days)
        put_once(self._s3(), self._bucket, f"evidence/{digest}/{token}", data, mime, **kept)

    def read(self, digest: str, token: str) -> Served | None:
        with aws_errors(THE_BUCKET):
            try:
                answer = self._s3().get_object(Bucket=self._bucket, Key=f"evidence/{digest}/{token}")
                return Served(answer["Body"].read(), answer["ContentType"])
            except ServiceRefused as refused:
                if refused.code not in ABSENT:
                    raise
        return None


class OverflowBucket(Overflow):
    """Results over the inline limit in S3."""

    def __init__(self, s3: S3Of, bucket: str, *, keep_days: int = 0) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._keep_days = keep_days

    def put(self, pointer: str, body: bytes) -> None:
        put_once(self._s3(), self._bucket, pointer, body, "application/json", **kept_for(self._keep_days))

    def get(self, pointer: str) -> bytes:
        with aws_errors(THE_BUCKET):
            return self._s3().get_object(Bucket=self._bucket, Key=pointer)["Body"].read()
