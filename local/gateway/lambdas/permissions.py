"""The IAM actions and resources that a role must allow for a request to AWS.

They are read from the request on the wire, so they hold for any client library. An unknown request gets an action name
that policies do not have, so it counts as not allowed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from local.template import ACCOUNT, REGION

SIGNED_FOR: Final = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request")
SIGNED_URL_FOR: Final = re.compile(r"X-Amz-Credential=[^&]+%2F\d+%2F[^&]+%2F([^&]+)%2Faws4_request")
TRANSACTED: Final = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
OBJECT_ACTIONS: Final = {
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "PUT": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
}
WRITE_HEADERS: Final = {  # further actions that a header of a PUT needs
    "if-match": "s3:GetObject",
    "x-amz-acl": "s3:PutObjectAcl",
    "x-amz-tagging": "s3:PutObjectTagging",
}
SQS_ACTIONS: Final = {  # a batch needs the actions of its entries
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}
VERSION: Final = "versionId"  # an action of its own where it removes one
OBJECT_QUERY: Final = frozenset({"x-id"})  # the operation's name only
SIGNATURE: Final = "X-Amz-"  # a signed URL needs the same permissions as its signer

Permission = tuple[str, str]  # action, resource
Naming = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to AWS; header names are lower-case, the body is that of a JSON protocol, a form, or empty."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def service(self) -> str:
        """The service that the request is signed for."""
        signed = SIGNED_FOR.search(self.headers.get("authorization", "")) or SIGNED_URL_FOR.search(self.target)
        return signed[1] if signed else "unsigned"

    @property
    def operation(self) -> str:
        """The operation's name in a JSON protocol; else the method and path."""
        named = self.headers.get("x-amz-target", "").rpartition(".")[2]
        return named or f"{self.method} {self.target}"


def needed(call: Call, named: Naming = str) -> list[Permission]:
    """The permissions that AWS requires for the call; `named` replaces the names of resources."""
    reader = _READERS.get(call.service)
    return reader(call, named) if reader else [(f"{call.service}:{call.operation}", "*")]


def _dynamodb(call: Call, named: Naming) -> list[Permission]:
    body = json.loads(call.body)
    operation = call.operation
    if operation.startswith("Transact"):
        parts = ((kind, part) for entry in body["TransactItems"] for kind, part in entry.items())
        return [(f"dynamodb:{TRANSACTED[kind]}", _table(part, named)) for kind, part in parts]
    if operation.startswith("Batch"):
        return [(f"dynamodb:{operation}", _table({"TableName": name}, named)) for name in body["RequestItems"]]
    return [(f"dynamodb:{operation}", _table(body, named))]


def _table(body: Mapping[str, Any], named: Naming) -> str:
    name = str(body.get("TableName", "*")).rpartition("/")[2]
    index = f"/index/{body['IndexName']}" if "IndexName" in body else ""
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{named(name)}{index}"


def _s3(call: Call, named: Naming) -> list[Permission]:
    parts = urlsplit(call.target)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    named_in_query = set(parse_qs(parts.query, keep_blank_values=True)) - OBJECT_QUERY
    query = {name for name in named_in_query if not name.startswith(SIGNATURE)}
    if not key:
        lists = {"list-type": "s3:ListBucket", "versions": "s3:ListBucketVersions"} if call.method == "GET" else {}
        action = next((lists[name] for name in lists if name in query), f"s3:{call.operation}")
        return [(action, f"arn:aws:s3:::{named(bucket)}")]
    resource = f"arn:aws:s3:::{named(bucket)}/{key}"
    if query == {VERSION} and call.method == "DELETE":
        return [("s3:DeleteObjectVersion", resource)]
    if query or call.method not in OBJECT_ACTIONS:
        return [(f"s3:{call.operation}", resource)]
    more = WRITE_HEADERS.items() if call.method == "PUT" else ()
    return [
        (OBJECT_ACTIONS[call.method], resource),
        *((action, resource) for header, action in more if header in call.headers),
    ]


def _secretsmanager(call: Call, named: Naming) -> list[Permission]:
    return [(f"secretsmanager:{call.operation}", named(str(json.loads(call.body).get("SecretId", "*"))))]


def _sqs(call: Call, named: Naming) -> list[Permission]:
    action, url = SQS_ACTIONS.get(call.operation, call.operation), str(json.loads(call.body).get("QueueUrl", "*"))
    name = named(url) if named(url) != url else url.rpartition("/")[2]
    return [(f"sqs:{action}", f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")]


def _logs(call: Call, named: Naming) -> list[Permission]:
    group = named(str(json.loads(call.body).get("logGroupName", "*")))
    return [(f"logs:{call.operation}", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}:*")]


def _sns(call: Call, named: Naming) -> list[Permission]:
    form = parse_qs(call.body.decode())
    return [(f"sns:{form.get('Action', ['*'])[0]}", named(form.get("TopicArn", ["*"])[0]))]


def _monitoring(call: Call, named: Naming) -> list[Permission]:
    """CloudWatch's metrics, which no policy can narrow; botocore names the operation in the path."""
    return [(f"cloudwatch:{call.operation.rpartition('/')[2]}", "*")]


def _ssm(call: Call, named: Naming) -> list[Permission]:
    name = str(json.loads(call.body).get("Name", "*"))
    return [(f"ssm:{call.operation}", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{named(name)}")]


_READERS: Final[Mapping[str, Callable[[Call, Naming], list[Permission]]]] = {
    "dynamodb": _dynamodb,
    "logs": _logs,
    "monitoring": _monitoring,
    "s3": _s3,
    "secretsmanager": _secretsmanager,
    "sns": _sns,
    "sqs": _sqs,
    "ssm": _ssm,
}
