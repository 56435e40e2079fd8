"""The same calls through our transport and through botocore: what is sent to AWS is the same.

Left out are what names the sender or the moment (User-Agent, `amz-sdk-*`, dates, signatures), how a body may be
answered (Accept-Encoding), and what botocore asks before a large body (Expect).
"""

import base64
import hashlib
import json
import os
import re
import zlib
from datetime import UTC, datetime
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import EndpointProviderError
from botocore.session import Session

from piecework.aws.clients import Clients
from piecework.aws.through_botocore import BotocoreClients, Translating
from piecework.aws.transport.connections import Answer, Connections
from piecework.aws.transport.endpoints import endpoint_of

OWN = re.compile(
    r"user-agent|amz-sdk-.*|x-amz-date|authorization|accept-encoding|expect|accept|connection|content-length"
)
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
EVERY_KIND = {
    "pk": {"S": "Zürich \x00 😀"},
    "n": {"N": "9223372036854775808"},
    "yes": {"BOOL": True},
    "bytes": {"B": b"\x00\xff"},
    "list": {"L": [{"S": "a"}, {"B": b"b"}, {"L": [{"BOOL": False}]}]},
    "set": {"SS": ["a", "b"]},
}
KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
WHERE = {
    "ConditionExpression": "#n = :n",
    "ExpressionAttributeNames": {"#n": "n"},
    "ExpressionAttributeValues": {":n": {"N": "1"}, ":b": {"B": b"\x01"}},
}
URL = "https://sqs.eu-central-1.amazonaws.com/000000000000/queue"
OBJECT = {"Bucket": "piecework-b", "Key": "evidence/a b+c/ü~'(*)!/%2F"}
CALLS = {
    "get": ("dynamodb", "get_item", {"TableName": "t", "Key": KEY, "ConsistentRead": True}),
    "batch get": ("dynamodb", "batch_get_item", {"RequestItems": {"t": {"Keys": [KEY], "ConsistentRead": True}}}),
    "query": (
        "dynamodb",
        "query",
        {
            "TableName": "t",
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :after AND :before",
            "ExpressionAttributeValues": {":pk": {"S": "p"}, ":after": {"S": "a"}, ":before": {"S": "b"}},
            "ExclusiveStartKey": KEY,
            "IndexName": "ByAgent",
            "Limit": 3,
            "ScanIndexForward": False,
        },
    ),
    "put": (
        "dynamodb",
        "put_item",
        {"TableName": "t", "Item": EVERY_KIND, **WHERE, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
    ),
    "update": (
        "dynamodb",
        "update_item",
        {"TableName": "t", "Key": KEY, "UpdateExpression": "SET n = :b", **WHERE, "ReturnValues": "ALL_NEW"},
    ),
    "delete": ("dynamodb", "delete_item", {"TableName": "t", "Key": KEY, **WHERE}),
    "batch write": (
        "dynamodb",
        "batch_write_item",
        {"RequestItems": {"t": [{"PutRequest": {"Item": EVERY_KIND}}, {"DeleteRequest": {"Key": KEY}}]}},
    ),
    "transact": (
        "dynamodb",
        "transact_write_items",
        {
            "ClientRequestToken": "token",
            "TransactItems": [
                {"Put": {"TableName": "t", "Item": EVERY_KIND, **WHERE}},
                {"Delete": {"TableName": "u", "Key": KEY}},
            ],
        },
    ),
    "publish": (
        "sns",
        "publish",
        {
            "TopicArn": "arn:aws:sns:eu-central-1:000000000000:approvals",
            "Message": '{"tool":"pay ü&=+"}',
            "Subject": "A call waits",
            "MessageAttributes": {
                "notice": {"DataType": "String", "StringValue": "needed"},
                "notify": {"DataType": "String", "StringValue": "finance"},
            },
        },
    ),
    "send": ("sqs", "send_message", {"QueueUrl": URL, "MessageBody": '{"a":"ü"}', "DelaySeconds": 3}),
    "send batch": (
        "sqs",
        "send_message_batch",
        {"QueueUrl": URL, "Entries": [{"Id": "0", "MessageBody": "a"}, {"Id": "1", "MessageBody": "b"}]},
    ),
    "receive": ("sqs", "receive_message", {"QueueUrl": URL, "MaxNumberOfMessages": 3, "VisibilityTimeout": 0}),
    "delete message": ("sqs", "delete_message", {"QueueUrl": URL, "ReceiptHandle": "r/+="}),
    "look at queue": (
        "sqs",
        "get_queue_attributes",
        {"QueueUrl": URL, "AttributeNames": ["ApproximateNumberOfMessages"]},
    ),
    "look through a log": (
        "logs",
        "filter_log_events",
        {
            "logGroupName": "/aws/lambda/verify",
            "startTime": 1_700_000_000_000,
            "endTime": 1_700_000_900_000,
            "limit": 5_000,
            "filterPattern": '{ $.message = "verify" && $.candidate_id = "c*" }',
            "nextToken": "token+/=",
        },
    ),
    "look at metrics": (
        "cloudwatch",
        "get_metric_data",
        {
            "MetricDataQueries": [
                {
                    "Id": "q0",
                    "MetricStat": {
                        "Metric": {
                            "Namespace": "AWS/SQS",
                            "MetricName": "ApproximateAgeOfOldestMessage",
                            "Dimensions": [{"Name": "QueueName", "Value": "queue"}],
                        },
                        "Period": 60,
                        "Stat": "Maximum",
                    },
                }
            ],
            "StartTime": 1_700_000_100,
            "EndTime": 1_700_001_000,
            "ScanBy": "TimestampDescending",
        },
    ),
    "secret": ("secrets", "get_secret_value", {"SecretId": "arn:aws:secretsmanager:eu-central-1:1:secret:x"}),
    "parameter": ("ssm", "get_parameter", {"Name": "/piecework/stack/console-client-id"}),
    "put object": (
        "s3",
        "put_object",
        {
            **OBJECT,
            "Body": b"body \x00\xff",
            "ContentType": "text/plain; charset=utf-8",
            "IfNoneMatch": "*",
            "Tagging": "keep-days=3",
        },
    ),
    "put an empty object": ("s3", "put_object", {**OBJECT, "Body": b"", "ContentType": "text/plain"}),
    "put a deliverable": (
        "s3",
        "put_object",
        {
            **OBJECT,
            "Body": b"x" * 3_000_000,
            "ContentType": "image/png",
            "ContentDisposition": "attachment; filename=\"a.png\"; filename*=UTF-8''%C3%BC.png",
            "ChecksumSHA256": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": "arn:aws:kms:eu-central-1:1:key/mine",
            "BucketKeyEnabled": True,
        },
    ),
    "get object": ("s3", "get_object", OBJECT),
    "get an odd key": ("s3", "get_object", {"Bucket": "piecework-b", "Key": "../..//a/./?b#c=&d"}),
    "get a part": ("s3", "get_object", {**OBJECT, "Range": "bytes=0-65536"}),
    "head": ("s3", "head_object", OBJECT),
    "delete object": ("s3", "delete_object", OBJECT),
    "list": ("s3", "list_objects_v2", {"Bucket": "piecework-b", "Prefix": "a b/ü", "Delimiter": "/"}),
    "list on": ("s3", "list_objects_v2", {"Bucket": "piecework-b", "Prefix": "p/", "ContinuationToken": "1+/="}),
    "dotted bucket": ("s3", "get_object", {"Bucket": "piecework.example.com", "Key": "k"}),
}
WORLDS = {
    "aws": {},
    "session": {"AWS_SESSION_TOKEN": "token+/="},
    "endpoint": {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
    "own endpoint": {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_DYNAMODB": "https://vpce-1.dynamodb.eu-central-1.vpce.amazonaws.com",
        "AWS_ENDPOINT_URL_SQS": "https://vpce-2.example:8443",
        "AWS_ENDPOINT_URL_SECRETS_MANAGER": "http://localhost:2",
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": "http://localhost:3",
        "AWS_ENDPOINT_URL_CLOUDWATCH": "http://localhost:4",
    },
    "ignored": {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    "fips": {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_DEFAULT_REGION": "us-east-1"},
    "dual stack": {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
    "both": {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_DEFAULT_REGION": "us-west-2"},
    "lambda": {
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1;Lineage=a:1|b:0",  # noqa: E501
    },
}
PUBLISHED = b"<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>"
XML = b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated></ListBucketResult>'


@pytest.fixture
def world(request, monkeypatch):
    """The variables of a function's environment, and no others of AWS's."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "_X_AMZN"))]:
        monkeypatch.delenv(name)
    env = {"AWS_DEFAULT_REGION": "eu-central-1", **KEYS, **WORLDS[request.param]}
    for name, value in {**env, "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    return env


def seen(method, url, headers, body):
    parts = urlsplit(url)
    kept = {name.lower(): value for name, value in headers.items() if not OWN.fullmatch(name.lower())}
    if kept.get("content-type", "").startswith("application/x-amz-json"):
        body = json.loads(body)
    if kept.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        body = sorted(parse_qsl(body.decode(), keep_blank_values=True))
    return {
        "method": method,
        "host": (parts.scheme, parts.netloc),
        "path": parts.path,
        "query": sorted(parse_qsl(parts.query, keep_blank_values=True)),
        "headers": kept,
        "body": body,
    }


def by_us(env, service, operation, given, monkeypatch):
    sent = []

    def exchange(connections, origin, raw):
        head, _, _ = raw.head.decode("latin-1").partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        host = headers.pop("host")
        assert host == origin.host_header
        assert headers.get("content-length", "0") == str(len(raw.body))
        sent.append(seen(method, f"{'https' if origin.is_tls else 'http'}://{host}{target}", headers, raw.body))
        return Answer(200, {}, XML if "list-type" in target else b"{}")

    monkeypatch.setattr(Connections, "exchange", exchange)
    getattr(getattr(Clients(env), service), operation)(**given)
    [only] = sent
    return only


class NothingMore:
    """The body of an answer as botocore reads it."""

    def __init__(self, content):
        self._content = [content]

    def stream(self, **_):
        return iter(self._content)

    def read(self, *_):
        return self._content.pop() if self._content else b""


@pytest.fixture(autouse=True, scope="module")
def _models_once():
    """Every session reads the models of AWS's services anew, which takes most of the time that a client takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@cache
def botocore_client(service, variables):
    """One for each world; it takes a tenth of a second to make."""
    return getattr(BotocoreClients(dict(variables)), service)._client


def by_botocore(env, service, operation, given):
    client, sent = botocore_client(service, tuple(env.items())), []

    def before_send(request, **_):
        text = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
        given = request.body.encode() if isinstance(request.body, str) else request.body  # a form is a text
        body = given if isinstance(given, bytes | None) else given.read()
        sent.append(seen(request.method, request.url, text, body or b""))
        content = {"s3": XML if "list-type" in request.url else b"", "sns": PUBLISHED}.get(service, b"{}")
        return AWSResponse(request.url, 200, {}, NothingMore(content))

    client.meta.events.register("before-send", before_send, unique_id="seen")
    try:
        getattr(Translating(client), operation)(**given)
    finally:
        client.meta.events.unregister("before-send", unique_id="seen")
    [only] = sent
    return only


def without_trailer(sent):
    """What botocore sends to S3 over TLS, with the checksum before the body, not behind it, and with a signed body."""
    headers = sent["headers"]
    if headers.pop("x-amz-trailer", None):
        found = re.fullmatch(
            rb"[0-9a-f]+\r\n(.*)\r\n0\r\n(x-amz-checksum-crc32):(\S+)\r\n\r\n", sent["body"], re.DOTALL
        )
        body, name, value = (
            found.groups() if found else (b"", *re.findall(rb"(x-amz-checksum-crc32):(\S+)", sent["body"])[0])
        )
        sent["body"], headers[name.decode()] = body, value.decode()
        assert headers.pop("content-encoding") == "aws-chunked"
        assert headers.pop("transfer-encoding") == "chunked"
        assert headers.pop("x-amz-decoded-content-length") == str(len(body))
        assert headers.pop("x-amz-content-sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    return sent


@pytest.mark.parametrize("world", WORLDS, indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_sent_as_botocore_sends_it(call, world, monkeypatch):
    service, operation, given = CALLS[call]
    theirs = without_trailer(by_botocore(world, service, operation, given))
    ours = by_us(world, service, operation, given, monkeypatch)

    payload = ours["headers"].pop("x-amz-content-sha256", None)
    if theirs["headers"].pop("x-amz-content-sha256", payload) != "UNSIGNED-PAYLOAD" and service == "s3":
        assert payload == hashlib.sha256(ours["body"]).hexdigest()
    assert ours == theirs


def test_a_checksum_goes_with_every_object_that_has_none(monkeypatch):
    env = {"AWS_DEFAULT_REGION": "eu-central-1", **KEYS}
    sent = by_us(env, "s3", "put_object", {**OBJECT, "Body": b"body"}, monkeypatch)

    assert sent["headers"]["x-amz-checksum-crc32"] == base64.b64encode(zlib.crc32(b"body").to_bytes(4)).decode()


@pytest.mark.parametrize("world", ["aws", "session", "endpoint", "fips", "dual stack"], indirect=True)
@pytest.mark.parametrize("bucket", ["piecework-b", "piecework.example.com"])
def test_a_link_is_the_one_that_botocore_signs(world, bucket, monkeypatch):
    given = {"Params": {**OBJECT, "Bucket": bucket}, "ExpiresIn": 900}
    moment = 1_700_000_000.0
    clients = Clients(world, now=lambda: moment)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: datetime.fromtimestamp(moment, UTC))

    ours = clients.s3.generate_presigned_url("get_object", **given)
    theirs = botocore_client("s3", tuple(world.items())).generate_presigned_url("get_object", **given)

    assert urlsplit(ours)[:3] == urlsplit(theirs)[:3]
    assert dict(parse_qsl(urlsplit(ours).query)) == dict(parse_qsl(urlsplit(theirs).query))


PLAIN = {
    "Accelerate": False,
    "UseGlobalEndpoint": False,
    "DisableMultiRegionAccessPoints": True,
    "ForcePathStyle": False,
}


@pytest.mark.parametrize("service", ["dynamodb", "logs", "monitoring", "s3", "sns", "sqs", "secretsmanager", "ssm"])
def test_a_service_is_where_botocores_rules_find_it_in_every_region(service):
    session = Session()
    loader: Any = session.get_component("data_loader")
    rules = loader.load_service_model({"monitoring": "cloudwatch"}.get(service, service), "endpoint-rule-set-1")
    provider, strangers, found = EndpointProvider(rules, loader.load_data("partitions")), [], 0
    bucket, given = ("my-bucket.", {"Bucket": "my-bucket", **PLAIN}) if service == "s3" else ("", {})
    for region, fips, dual in product(regions(session), (False, True), (False, True)):
        try:
            theirs = provider.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual, **given).url
        except EndpointProviderError:
            continue  # China has no FIPS endpoints of S3
        flags = {"AWS_USE_FIPS_ENDPOINT": str(fips), "AWS_USE_DUALSTACK_ENDPOINT": str(dual)}
        ours = endpoint_of(service, flags, region).origin
        found += 1
        if theirs != f"https://{bucket}{ours.host}":
            strangers.append((region, fips, dual, theirs, ours.host))

    assert found > 150 and strangers == []


def regions(session):
    found = (
        session.get_available_regions("dynamodb", partition, allow_non_regional=False)
        for partition in session.get_available_partitions()
    )
    return sorted({region for named in found for region in named})
