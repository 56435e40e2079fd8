"""AWS clients, made once per environment, and the translation of their errors.

They come from botocore itself: boto3 makes the very same clients, and imports its transfer manager for 60 ms first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader
from botocore.session import Session

from piecework.errors import Unavailable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient

CONNECT_SECONDS: Final = 1.0  # AWS answers a connect in milliseconds; more means trouble, and a retry helps
READ_SECONDS: Final = 3.0  # DynamoDB answers in tens of milliseconds; leaves room for two retries in a renewal round
S3_READ_SECONDS: Final = 10.0  # objects of megabytes
ATTEMPTS: Final = 3  # every write is conditional, so a repeated one is recognised


class Clients:
    """The clients of one environment; S3 is made on first use because most requests never need it."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url
        self._session = Session()
        self._session.register_component("data_loader", _OurServices())

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        config = self._config(READ_SECONDS)
        made: Any = self._session.create_client("dynamodb", config=config, endpoint_url=self._endpoint_url)
        return cast("DynamoDBClient", made)

    @cached_property
    def s3(self) -> S3Client:
        style: Any = {"addressing_style": "path"} if self._endpoint_url else {}
        config = self._config(S3_READ_SECONDS).merge(Config(signature_version="s3v4", s3=style))
        made: Any = self._session.create_client("s3", config=config, endpoint_url=self._endpoint_url)
        return cast("S3Client", made)

    @cached_property
    def sqs(self) -> SQSClient:
        made: Any = self._session.create_client(
            "sqs", config=self._config(READ_SECONDS), endpoint_url=self._endpoint_url
        )
        return cast("SQSClient", made)

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
        Unavailable: the service is throttled, out of reach or refuses; its text stays in the exception chain.
    """
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise Unavailable(f"{what} is out of reach; try again") from error
