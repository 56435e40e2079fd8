"""The embedded AWS (ministack, in an environment of its own), with the tables, buckets and queues of template.yaml."""

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from local.die_with_parent import dying_with_parent
from local.gateway.held_port import HOST, held_port
from local.gateway.lambdas.variables import ROOT
from local.template import REGION, Template

PROGRAM: Final = ROOT / ".venv-ministack" / "bin" / "uvicorn"
OPTIONS: Final = (  # uvicorn takes half the processor time of the emulator's own server
    *("--loop", "uvloop", "--http", "httptools", "--ws", "none", "--lifespan", "on", "--log-level", "warning"),
    *("--no-access-log", "--no-server-header", "--no-date-header", "--no-proxy-headers"),
    *("--timeout-keep-alive", "75", "--timeout-graceful-shutdown", "1"),
)
START_SECONDS: Final = 30
STOP_SECONDS: Final = 5
POLL_SECONDS: Final = 0.1
CREDENTIALS: Final[Mapping[str, str]] = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
QUEUE_ATTRIBUTES: Final = ("MessageRetentionPeriod", "RedrivePolicy", "VisibilityTimeout")
TABLE_PROPERTIES: Final = (
    "AttributeDefinitions",
    "BillingMode",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
)


class NotStarted(Exception):
    """A local process did not start."""


@contextlib.contextmanager
def embedded_aws(port: int = 0, log: IO[Any] | int = subprocess.DEVNULL) -> Iterator[str]:
    """Run the embedded AWS on a loopback port, 0 for a free one, with its data in memory; yields its endpoint URL.

    Raises:
        NotStarted: it is not installed, or does not answer.
    """
    if not PROGRAM.exists():
        raise NotStarted(f"{PROGRAM.relative_to(ROOT)} is missing: `make run` sets it up")
    with held_port() if port == 0 else contextlib.nullcontext(port) as own:
        variables = {
            **os.environ,
            **CREDENTIALS,
            "GATEWAY_PORT": str(own),  # as it stands in the addresses that it tells
            "LOG_LEVEL": "WARNING",
        }
        command = (str(PROGRAM), "ministack.app:app", "--host", HOST, "--port", str(own), *OPTIONS)
        process = subprocess.Popen(
            dying_with_parent("exec", *command), env=variables, stdout=log, stderr=log, start_new_session=True
        )
        endpoint = f"http://{HOST}:{own}"
        try:
            wait_until_answers(f"{endpoint}/_ministack/health", process)
            yield endpoint
        finally:
            stop(process)


def wait_until_answers(url: str, process: subprocess.Popen[Any]) -> None:
    """Wait until a GET gets an answer other than a server error.

    Raises:
        NotStarted: the process ended, or did not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _status(url) < 500:
            return
        time.sleep(POLL_SECONDS)
    raise NotStarted(f"{url} does not answer")


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=START_SECONDS) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return 599


def stop(process: subprocess.Popen[Any]) -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def client(service: str, endpoint: str | None, env: Mapping[str, str] = os.environ) -> Any:
    """A boto3 client for an endpoint; an emulator gets the keys test/test unless the environment sets others."""
    import boto3
    from botocore.config import Config

    keys = {**CREDENTIALS, **env} if endpoint else env
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=env.get("AWS_REGION", REGION),
        aws_access_key_id=keys.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=keys.get("AWS_SECRET_ACCESS_KEY"),
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}) if service == "s3" else None,
    )


def provision(template: Template, endpoint: str | None) -> None:
    """Make every table, bucket and queue of the template that does not exist yet."""
    dynamodb = client("dynamodb", endpoint)
    pages = dynamodb.get_paginator("list_tables").paginate()
    present = {name for page in pages for name in page["TableNames"]}
    for logical, properties in template.of_type("AWS::DynamoDB::Table").items():
        name = template.physical_name(logical)
        if name not in present:
            create_table(dynamodb, name, properties)
    s3 = client("s3", endpoint)
    owned = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    for logical, properties in template.of_type("AWS::S3::Bucket").items():
        name = template.physical_name(logical)
        if name not in owned:
            s3.create_bucket(Bucket=name)
        if rules := properties.get("CorsConfiguration", {}).get("CorsRules"):
            s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": [_cors_rule(rule) for rule in rules]})
    _provision_queues(template, endpoint)


def _cors_rule(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A rule for S3's API, which has other names for two of its members."""
    renamed = {"ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds"}
    return {renamed.get(name, name): value for name, value in declared.items()}


def _provision_queues(template: Template, endpoint: str | None) -> None:
    """Make the queues, dead-letter queues first; existing queues keep their messages."""
    declared = template.of_type("AWS::SQS::Queue")
    if not declared:
        return
    sqs = client("sqs", endpoint)
    for logical, properties in sorted(declared.items(), key=lambda entry: "RedrivePolicy" in entry[1]):
        attributes = {key: _attribute(properties[key]) for key in QUEUE_ATTRIBUTES if key in properties}
        sqs.create_queue(QueueName=template.physical_name(logical), Attributes=attributes)


def _attribute(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def create_table(dynamodb: Any, name: str, properties: Mapping[str, Any]) -> None:
    """Make one table from its CloudFormation properties."""
    wanted = {key: properties[key] for key in TABLE_PROPERTIES if key in properties}
    made = dynamodb.create_table(TableName=name, **wanted)
    if made["TableDescription"]["TableStatus"] != "ACTIVE":
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    if "TimeToLiveSpecification" in properties:
        ttl = properties["TimeToLiveSpecification"]
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=ttl)
