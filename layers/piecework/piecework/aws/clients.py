"""AWS clients, made once per environment, each when it is first used.

They are our own (`transport`), because botocore takes most of a cold start; `chosen` says who gets botocore's instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Thread
from time import time
from typing import TYPE_CHECKING, Final

from piecework.aws.transport.caller import Caller, Clock
from piecework.aws.transport.connections import Limits, trusted
from piecework.aws.transport.credentials import Credentials
from piecework.aws.transport.endpoints import given_url

if TYPE_CHECKING:
    from piecework.aws.transport.cloudwatch import CloudWatch
    from piecework.aws.transport.dynamodb import DynamoDB
    from piecework.aws.transport.logs import Logs
    from piecework.aws.transport.s3 import S3
    from piecework.aws.transport.secrets_manager import SecretsManager
    from piecework.aws.transport.sns import SNS
    from piecework.aws.transport.sqs import SQS
    from piecework.aws.transport.ssm import SSM

CONNECT_SECONDS: Final = 1.0  # AWS answers a connect in milliseconds; more means trouble, and a retry helps
READ_SECONDS: Final = 3.0  # DynamoDB answers in tens of milliseconds; leaves room for two retries in a renewal round
S3_READ_SECONDS: Final = 10.0  # objects of megabytes
LOGS_READ_SECONDS: Final = 5.0  # a look through a log; three of them must end before the function does
CLOUDWATCH_READ_SECONDS: Final = 2.0  # a number that the rest of an answer does not wait for long
SHORTEST_SESSION_MS: Final = 900_000  # a function's longest run, and the shortest session that AWS gives
ANSWER_BYTES: Final = 64 * 1024 * 1024


class Clients:
    """The clients of one environment, whose variables say where AWS is and which keys sign."""

    def __init__(self, env: Mapping[str, str], now: Callable[[], float] = time) -> None:
        self._env, self._now = env, now
        self._credentials = Credentials(env, now)
        self._clock = Clock(now)

    def prepare(self) -> None:
        """Read the certificates while the environment starts, beside its other work; no connection is opened."""
        if not given_url("dynamodb", self._env).startswith("http:"):
            # No daemon: a process that ends meanwhile waits, since OpenSSL must not be taken away under the thread.
            Thread(target=trusted, args=(self._env.get("AWS_CA_BUNDLE") or "",)).start()

    @cached_property
    def dynamodb(self) -> DynamoDB:
        from piecework.aws.transport.dynamodb import DynamoDB

        return DynamoDB(self._caller(READ_SECONDS), self._env)

    @cached_property
    def s3(self) -> S3:
        from piecework.aws.transport.s3 import S3

        return S3(self._caller(S3_READ_SECONDS), self._env)

    @cached_property
    def sqs(self) -> SQS:
        from piecework.aws.transport.sqs import SQS

        return SQS(self._caller(READ_SECONDS), self._env)

    @cached_property
    def logs(self) -> Logs:
        from piecework.aws.transport.logs import Logs

        return Logs(self._caller(LOGS_READ_SECONDS), self._env)

    @cached_property
    def cloudwatch(self) -> CloudWatch:
        from piecework.aws.transport.cloudwatch import CloudWatch

        return CloudWatch(self._caller(CLOUDWATCH_READ_SECONDS), self._env)

    @cached_property
    def sns(self) -> SNS:
        from piecework.aws.transport.sns import SNS

        return SNS(self._caller(READ_SECONDS), self._env)

    @cached_property
    def secrets(self) -> SecretsManager:
        from piecework.aws.transport.secrets_manager import SecretsManager

        return SecretsManager(self._caller(READ_SECONDS), self._env)

    @cached_property
    def ssm(self) -> SSM:
        from piecework.aws.transport.ssm import SSM

        return SSM(self._caller(READ_SECONDS), self._env)

    def credentials_end_ms(self) -> int | None:
        """When the credentials that sign end, epoch ms; None for those of a user, which do not.

        A function's own have a session token and say no end. Lambda lets no run begin with less than it may take.
        """
        keys = self._credentials.keys()
        return end_ms(keys.token, keys.ends, self._now)

    def _caller(self, read_seconds: float) -> Caller:
        limits = Limits(CONNECT_SECONDS, read_seconds, ANSWER_BYTES)
        return Caller(self._env, self._credentials, limits, self._clock)


def end_ms(token: str | None, ends: float | None, now: Callable[[], float]) -> int | None:
    """When credentials end, epoch ms; None for those without a token."""
    if not token:
        return None
    return int(ends * 1000) if ends else int(now() * 1000) + SHORTEST_SESSION_MS
