"""Policy files in S3: one object, or those that lie directly in a folder; read once, at start."""

from __future__ import annotations

from typing import Any, Final

from piecework.aws.bucket import S3Of
from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.kernel.policy.loading import MAX_FILES, is_passed_over
from piecework.kernel.policy.reading import MAX_BYTES, PolicyInvalid

ABSENT: Final = frozenset({"NoSuchKey", "NoSuchBucket", "AccessDenied", "404", "403"})
THE_BUCKET: Final = "the policy's bucket"


class PolicyBucket:
    """Reads policy files; the client is made on the first call."""

    def __init__(self, s3: S3Of) -> None:
        self._s3 = s3

    def __call__(self, bucket: str, place: str) -> dict[str, bytes]:
        """Contents by name: of the object at a key, or of a folder when the place ends in `/`.

        Raises:
            PolicyInvalid: the object does not exist or may not be read, or the folder holds too many.
        """
        keys = self._keys(bucket, place) if place.endswith("/") else [place]
        if len(keys) > MAX_FILES:
            raise PolicyInvalid(f"s3://{bucket}/{place} holds more than {MAX_FILES} files")
        return {key.rpartition("/")[2]: self._content(bucket, key) for key in keys}

    def _content(self, bucket: str, key: str) -> bytes:
        with aws_errors(THE_BUCKET):
            try:
                answer = self._s3().get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{MAX_BYTES}")
                return answer["Body"].read()
            except ServiceRefused as refused:
                if refused.code == "InvalidRange":
                    return b""  # an empty object has no first byte
                raise _absent(refused, f"s3://{bucket}/{key}") from None

    def _keys(self, bucket: str, folder: str) -> list[str]:
        keys: list[str] = []
        more: dict[str, Any] = {}
        while len(keys) <= MAX_FILES:
            with aws_errors(THE_BUCKET):
                try:
                    answer = self._s3().list_objects_v2(Bucket=bucket, Prefix=folder, Delimiter="/", **more)
                except ServiceRefused as refused:
                    raise _absent(refused, f"s3://{bucket}/{folder}") from None
            found = (entry["Key"] for entry in answer.get("Contents", []))
            keys += [key for key in found if key != folder and not is_passed_over(key.removeprefix(folder))]
            token = answer.get("NextContinuationToken")
            if not token:
                break
            more = {"ContinuationToken": token}
        return keys


def _absent(refused: ServiceRefused, place: str) -> Exception:
    """What to raise: a bad setting when the object is not there or not ours to read, else the error itself."""
    if refused.code in ABSENT:
        return PolicyInvalid(f"{place} does not exist, or may not be read")
    return refused
