"""The bucket, as an operator has objects erased: every version of them, where the bucket keeps versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from piecework.aws.bucket import ABSENT, THE_BUCKET
from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.ops.forgetting.erasing import HasTime, Objects

if TYPE_CHECKING:
    from piecework.aws.bucket import S3Of


class ErasedObjects(Objects):
    """Objects in S3."""

    def __init__(self, s3: S3Of, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    def read(self, pointer: str) -> bytes | None:
        with aws_errors(THE_BUCKET):
            try:
                return self._s3().get_object(Bucket=self._bucket, Key=pointer)["Body"].read()
            except ServiceRefused as refused:
                if refused.code not in ABSENT:
                    raise
        return None

    def erase(self, prefix: str, has_time: HasTime) -> bool:
        for one in self._versions(prefix):
            if not has_time():
                return False
            with aws_errors(THE_BUCKET):
                self._s3().delete_object(Bucket=self._bucket, Key=one["Key"], VersionId=one["VersionId"])
        return True

    def _versions(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Versions and marks of deletions; without versioning, each object's only version."""
        more: dict[str, str] = {}
        while True:
            with aws_errors(THE_BUCKET):
                page = self._s3().list_object_versions(Bucket=self._bucket, Prefix=prefix, **more)
            yield from (*page.get("Versions", []), *page.get("DeleteMarkers", []))
            if not page.get("NextKeyMarker"):
                return
            more = {"KeyMarker": page["NextKeyMarker"]}
            more |= {"VersionIdMarker": page["NextVersionIdMarker"]} if page.get("NextVersionIdMarker") else {}
