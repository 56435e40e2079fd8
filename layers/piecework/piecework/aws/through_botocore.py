"""The same clients made by botocore: for environments that ask for it or have a proxy, and for the commands.

botocore knows profiles, single sign-on and proxies, and takes half a second to start. What it raises becomes ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from io import BytesIO
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
from botocore.session import Session

from piecework.aws.clients import (
    CLOUDWATCH_READ_SECONDS,
    CONNECT_SECONDS,
    LOGS_READ_SECONDS,
    READ_SECONDS,
    S3_READ_SECONDS,
    Clients,
    end_ms,
)
from piecework.aws.transport.endpoints import given_url
from piecework.aws.transport.failures import AwsFailure, NoAnswer, NotConfigured, ServiceRefused
from piecework.aws.transport.retries import ATTEMPTS

if TYPE_CHECKING:
    from piecework.aws.transport.cloudwatch import CloudWatch
    from piecework.aws.transport.dynamodb import DynamoDB
    from piecework.aws.transport.logs import Logs
    from piecework.aws.transport.s3 import S3
    from piecework.aws.transport.secrets_manager import SecretsManager
    from piecework.aws.transport.sns import SNS
    from piecework.aws.transport.sqs import SQS
    from piecework.aws.transport.ssm import SSM

# A bucket's links must lead to its own Region: elsewhere S3 answers 307, and a signature does not survive that.
REGIONAL: Final = {"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"}
NEVER_SENT: Final = (ParamValidationError, NoCredentialsError, NoRegionError)


class BotocoreClients(Clients):
    """The clients of one environment, made by botocore, which reads the process's own variables."""

    def __init__(self, env: Mapping[str, str], now: Callable[[], float] = time) -> None:
        super().__init__(env, now)
        self._session = Session()

    @cached_property
    def dynamodb(self) -> DynamoDB:
        return cast("DynamoDB", self._made("dynamodb", _config(READ_SECONDS)))

    @cached_property
    def s3(self) -> S3:
        style: Any = {"addressing_style": "path"} if given_url("s3", self._env) else dict(REGIONAL)
        config = _config(S3_READ_SECONDS).merge(Config(signature_version="s3v4", s3=style))
        return cast("S3", self._made("s3", config))

    @cached_property
    def sqs(self) -> SQS:
        return cast("SQS", self._made("sqs", _config(READ_SECONDS)))

    @cached_property
    def logs(self) -> Logs:
        return cast("Logs", self._made("logs", _config(LOGS_READ_SECONDS)))

    @cached_property
    def cloudwatch(self) -> CloudWatch:
        return cast("CloudWatch", self._made("cloudwatch", _config(CLOUDWATCH_READ_SECONDS)))

    @cached_property
    def sns(self) -> SNS:
        return cast("SNS", self._made("sns", _config(READ_SECONDS)))

    @cached_property
    def secrets(self) -> SecretsManager:
        return cast("SecretsManager", self._made("secretsmanager", _config(READ_SECONDS)))

    @cached_property
    def ssm(self) -> SSM:
        return cast("SSM", self._made("ssm", _config(READ_SECONDS)))

    def credentials_end_ms(self) -> int | None:
        found = self._session.get_credentials()
        token = found.get_frozen_credentials().token if found else None  # asking renews what is about to end
        ends: Any = getattr(found, "_expiry_time", None)  # botocore has no public name for it
        return end_ms(token, ends.timestamp() if ends else None, self._now)

    def _made(self, service: str, config: Config) -> Translating:
        url = given_url(service, self._env) or None
        made: Any = self._session.create_client(service, config=config, endpoint_url=url)
        return Translating(made)


class Translating:
    """A client of botocore whose failures are ours, and whose objects are read whole."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return _translated(found) if callable(found) else found


def error_code(error: ClientError) -> str:
    """The service's name for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _translated(call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        try:
            answer = call(*given, **named)
            if isinstance(answer, dict) and hasattr(answer.get("Body"), "read"):
                answer["Body"] = BytesIO(answer["Body"].read())
        except (ClientError, BotoCoreError) as error:
            raise _failure(error) from error
        return answer

    return called


def _failure(error: ClientError | BotoCoreError) -> AwsFailure:
    if isinstance(error, NEVER_SENT):
        return NotConfigured(str(error))
    if not isinstance(error, ClientError):
        return NoAnswer(str(error))
    answer: Any = error.response
    metadata = answer.get("ResponseMetadata", {})
    return ServiceRefused(
        error_code(error),
        str(answer.get("Error", {}).get("Message", "")),
        operation=error.operation_name,
        status=metadata.get("HTTPStatusCode", 0),
        request_id=metadata.get("RequestId", ""),
        answer=answer,
        headers=metadata.get("HTTPHeaders", {}),
        retries=metadata.get("RetryAttempts", 0),
    )


def _config(read_seconds: float) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )
