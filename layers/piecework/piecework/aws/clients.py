"""AWS clients, made once per environment, and the translation of their errors: what may pass, and what never will.

They come from botocore itself: boto3 makes the very same clients, and imports its transfer manager for 60 ms first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import time
from typing import TYPE_CHECKING, Any, Final, cast

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
from botocore.loaders import Loader
from botocore.session import Session

from piecework.errors import PieceworkError, RequestRejected, Unavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient

CONNECT_SECONDS: Final = 1.0  # AWS answers a connect in milliseconds; more means trouble, and a retry helps
READ_SECONDS: Final = 3.0  # DynamoDB answers in tens of milliseconds; leaves room for two retries in a renewal round
S3_READ_SECONDS: Final = 10.0  # objects of megabytes
SHORTEST_SESSION_MS: Final = 900_000  # a function's longest run, and the shortest session that AWS gives
# A bucket's links must lead to its own Region: elsewhere S3 answers 307, and a signature does not survive that.
REGIONAL: Final = {"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"}
ATTEMPTS: Final = 3  # every write is conditional, so a repeated one is recognised
LOGGED_CHARACTERS: Final = 300  # of what AWS says of a request that it will never take

# Errors that no repetition mends. What is not named here may pass: throttling, time-outs, conflicts, credentials that
# have expired, a table or bucket that is being restored.
PERMANENT: Final = frozenset(
    {
        *("ValidationException", "ValidationError", "SerializationException", "InvalidArgument", "InvalidRequest"),
        *("EntityTooLarge", "KeyTooLongError", "MetadataTooLarge", "InvalidBucketName"),
        *("ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException"),
        *("AccessDenied", "AccessDeniedException", "403", "UnauthorizedOperation", "AllAccessDisabled"),
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidClientTokenId"),
        *("InvalidMessageContents", "InvalidParameterValue", "MissingParameter", "UnsupportedOperation"),
        *(
            "KMS.AccessDeniedException",
            "KMS.DisabledException",
            "KMS.NotFoundException",
            "KMS.KMSInvalidStateException",
        ),
    }
)
_log: Final = logging.getLogger(__name__)


class Clients:
    """The clients of one environment; S3 is made on first use because most requests never need it."""

    def __init__(self, endpoint_url: str | None = None, now: Callable[[], float] = time) -> None:
        self._endpoint_url = endpoint_url
        self._now = now
        self._session = Session()
        self._session.register_component("data_loader", _OurServices())

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        config = self._config(READ_SECONDS)
        made: Any = self._session.create_client("dynamodb", config=config, endpoint_url=self._endpoint_url)
        return cast("DynamoDBClient", made)

    @cached_property
    def s3(self) -> S3Client:
        style: Any = {"addressing_style": "path"} if self._endpoint_url else REGIONAL
        config = self._config(S3_READ_SECONDS).merge(Config(signature_version="s3v4", s3=style))
        made: Any = self._session.create_client("s3", config=config, endpoint_url=self._endpoint_url)
        return cast("S3Client", made)

    @cached_property
    def sqs(self) -> SQSClient:
        made: Any = self._session.create_client(
            "sqs", config=self._config(READ_SECONDS), endpoint_url=self._endpoint_url
        )
        return cast("SQSClient", made)

    def credentials_end_ms(self) -> int | None:
        """When the credentials that sign end, epoch ms; None for those of a user, which do not.

        A function's own have a session token and say no end. Lambda lets no run begin with less than it may take.
        """
        found = self._session.get_credentials()
        if found is None or not found.get_frozen_credentials().token:  # asking renews what is about to end
            return None
        ends: Any = getattr(found, "_expiry_time", None)  # botocore has no public name for it
        return int(ends.timestamp() * 1000) if ends else int(self._now() * 1000) + SHORTEST_SESSION_MS

    @staticmethod
    def _config(read_seconds: float) -> Config:
        return Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        )


class _OurServices(Loader):
    """botocore checks a service's name by listing the folders of all services, twice, for 15 ms; this knows ours."""

    def list_available_services(self, type_name: str) -> list[str]:
        return ["dynamodb", "s3", "sqs"]


def error_code(error: ClientError) -> str:
    """The service's name for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def aws_errors(what: str) -> Iterator[None]:
    """Translate any AWS failure inside the block.

    Raises:
        RequestRejected: the service will never take this request; the log says what it answered.
        Unavailable: it is throttled or out of reach; its text stays in the exception chain.
    """
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise _translated(what, error) from error


def _translated(what: str, error: ClientError | BotoCoreError) -> PieceworkError:
    if not _is_permanent(error):
        return Unavailable(f"{what} is out of reach; try again")
    _log.error("aws_request_rejected: %s: %s", what, str(error)[:LOGGED_CHARACTERS])
    return RequestRejected(f"{what} refuses this request for good; the operator's log has the reason")


def _is_permanent(error: ClientError | BotoCoreError) -> bool:
    if not isinstance(error, ClientError):
        return isinstance(error, ParamValidationError | NoCredentialsError | NoRegionError)
    reasons: Any = error.response.get("CancellationReasons", [])  # of a transaction
    return not PERMANENT.isdisjoint({error_code(error), *(str(reason.get("Code", "")) for reason in reasons)})
