"""Policy files in S3: one object, or those that lie directly in a folder; read once, at start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from piecework.aws.clients import aws_errors, error_code
from piecework.kernel.policy.loading import MAX_FILES, is_passed_over
from piecework.kernel.policy.reading import MAX_BYTES, PolicyInvalid

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

ABSENT: Final = frozenset({"NoSuchKey", "NoSuchBucket", "AccessDenied", "404", "403"})
THE_BUCKET: Final = "the policy's bucket"


class PolicyBucket:
    """Reads policy files; the client is made on the first call."""

    def __init__(self, s3: Callable[[], S3Client]) -> None:
        self._s3 = s3

    def __call__(self, bucket: str, place: str) -> dict[str, bytes]:
        """Contents by name: of the object at a key, or of a folder when the place ends in `/`.

        Raises:
            PolicyInvalid: there is no such object, it may not be read, or there are too many.
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
            except ClientError as error:
                if error_code(error) == "InvalidRange":
                    return b""  # an empty object has no first byte
                raise _absent(error, f"s3://{bucket}/{key}") from None

    def _keys(self, bucket: str, folder: str) -> list[str]:
        keys: list[str] = []
        more: dict[str, Any] = {}
        while len(keys) <= MAX_FILES:
            with aws_errors(THE_BUCKET):
                try:
                    answer = self._s3().list_objects_v2(Bucket=bucket, Prefix=folder, Delimiter="/", **more)
                except ClientError as error:
                    raise _absent(error, f"s3://{bucket}/{folder}") from None
            found = (entry["Key"] for entry in answer.get("Contents", []))
            keys += [key for key in found if key != folder and not is_passed_over(key.removeprefix(folder))]
            token = answer.get("NextContinuationToken")
            if not token:
                break
            more = {"ContinuationToken": token}
        return keys


def _absent(error: ClientError, place: str) -> Exception:
    """What to raise: a bad setting when the object is not there or not ours to read, else the error itself."""
    if error_code(error) in ABSENT:
        return PolicyInvalid(f"{place} does not exist, or may not be read")
    return error
