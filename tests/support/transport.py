"""Clients of our own transport that stand before one server, with short limits and noted pauses."""

import json
import time

from piecework.aws.transport.caller import Caller, Clock
from piecework.aws.transport.cloudwatch import CloudWatch
from piecework.aws.transport.connections import Limits
from piecework.aws.transport.credentials import Credentials
from piecework.aws.transport.dynamodb import DynamoDB
from piecework.aws.transport.s3 import S3
from piecework.aws.transport.secrets_manager import SecretsManager
from piecework.aws.transport.sqs import SQS
from piecework.aws.transport.ssm import SSM
from tests.support.misbehaving import Misbehaving, answer

READ_SECONDS = 4.0  # a crowded machine may need long for an answer
SILENT_SECONDS = 0.3  # where the server does not answer
GET = {"TableName": "t", "Key": {"pk": {"S": "p"}}}
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-central-1"}


def refused(code: str, status: int = 400, *lines: str, **more: object) -> bytes:
    """DynamoDB's answer with an error."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "m", **more}).encode()
    return answer(body, status, "x-amzn-RequestId: REQ1", *lines)


class Here:
    """Clients of one server."""

    def __init__(
        self,
        server: Misbehaving,
        now=time.time,
        limit: int = 1024 * 1024,
        read_seconds: float = READ_SECONDS,
        **env: str,
    ) -> None:
        self.env = {**KEYS, "AWS_ENDPOINT_URL": server.url, **env}
        self.pauses: list[float] = []
        self.credentials = Credentials(self.env, now)
        limits = Limits(1.0, read_seconds, limit)
        self.caller = Caller(self.env, self.credentials, limits, Clock(now), self.pauses.append)
        self.dynamodb = DynamoDB(self.caller, self.env)
        self.cloudwatch = CloudWatch(self.caller, self.env)
        self.s3 = S3(self.caller, self.env)
        self.sqs = SQS(self.caller, self.env)
        self.secrets = SecretsManager(self.caller, self.env)
        self.ssm = SSM(self.caller, self.env)

    def get(self):
        return self.dynamodb.get_item(**GET)
