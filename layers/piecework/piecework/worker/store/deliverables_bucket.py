"""The bucket's `deliverables/` prefix: private objects with their SHA-256 under a KMS key, and presigned links to them.

A presigned URL dies with the credentials that signed it, so a link never states a later end than theirs, neither in its
answer nor in the URL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypedDict

from piecework.aws.bucket import ABSENT, THE_BUCKET, S3Of, kept_for, put_once
from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.clock import now_in_ms
from piecework.worker.answer.deliverables import Deliverables, Link, base64_digest

LINK_SECONDS: Final = 3_600
SIGNED_SECONDS: Final = 604_800  # the longest that the signature's format allows


class _Key(TypedDict, total=False):
    SSEKMSKeyId: str


class DeliverablesBucket(Deliverables):
    """Deliverables in S3."""

    def __init__(
        self,
        s3: S3Of,
        bucket: str,
        *,
        key: str = "",
        link_seconds: int = LINK_SECONDS,
        keep_days: int = 0,
        clock: Callable[[], int] = now_in_ms,
        credentials_end_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        # Without a key id S3 takes the key that AWS manages for the account, and makes it where there is none yet.
        self._key: _Key = {"SSEKMSKeyId": key} if key else {}
        self._keep_days = keep_days
        self._link_seconds = min(link_seconds, SIGNED_SECONDS)
        self._clock = clock
        self._credentials_end_ms = credentials_end_ms

    def put(self, key: str, data: bytes, sha256: bytes, mime: str, disposition: str) -> None:
        put_once(  # keys hold the runner's lease: what stands is our own first try
            self._s3(),
            self._bucket,
            key,
            data,
            mime,
            ContentDisposition=disposition,
            ChecksumSHA256=base64_digest(sha256),
            ServerSideEncryption="aws:kms",
            BucketKeyEnabled=True,  # spares a call to KMS for each object
            **self._key,
            **kept_for(self._keep_days),
        )

    def link(self, key: str) -> Link:
        s3 = self._s3()
        parameters = {"Bucket": self._bucket, "Key": key}
        now_ms = self._clock()
        ends, longest_ms = self._credentials_end_ms(), self._link_seconds * 1000
        seconds = max(1, (longest_ms if ends is None else min(longest_ms, ends - now_ms)) // 1000)
        url = s3.generate_presigned_url("get_object", Params=parameters, ExpiresIn=seconds)
        return Link(url, now_ms + seconds * 1000)

    def exists(self, key: str) -> bool:
        with aws_errors(THE_BUCKET):
            try:
                self._s3().head_object(Bucket=self._bucket, Key=key)
                return True
            except ServiceRefused as refused:
                if refused.code not in ABSENT | {"403"}:  # without ListBucket, absent is forbidden
                    raise
        return False
