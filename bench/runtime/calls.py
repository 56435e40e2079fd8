"""Counts the AWS requests of a piece as they are sent: `python -m bench.runtime.calls OUT`.

The handlers run in this process against the endpoint in AWS_ENDPOINT_URL. Every request botocore sends is counted,
retries included; for /verify, which must not even import botocore, new connections of any kind count too.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import boto3

from bench.contenders import EXECUTE, VERIFY, event, fresh
from bench.runtime.fakes import Context
from bench.sent import Sent
from piecework.durable.pieces import piece_key


def measure() -> dict[str, int]:
    """Requests of a fresh piece, of its replay, and of a verification; and the size of the stored item."""
    sent, context = Sent(), Context()
    execute, verify = (importlib.import_module(f"runtime.{name}.app").handler for name in ("execute", "verify"))
    request = fresh(event(EXECUTE))
    succeed(execute(fresh(event(EXECUTE)), context))  # the first call makes the clients and their connections
    sent.take()
    answer = succeed(execute(request, context))
    first = sent.take()
    replayed = succeed(execute(request, context))
    replay = sent.take()
    succeed(verify(dict(event(VERIFY)), context))
    verified = sent.take()
    if replayed["body"] != answer["body"]:
        raise SystemExit("a replay returned other bytes")
    return {
        "execute_fresh_dynamodb_calls": first["dynamodb"],
        "execute_fresh_s3_calls": first["s3"],
        "execute_fresh_artifacts": len(json.loads(answer["body"])["evidence_refs"]),
        "execute_replay_dynamodb_calls": replay["dynamodb"],
        "execute_replay_s3_calls": replay["s3"],
        "verify_aws_calls": verified.total(),
        "execute_response_bytes": len(answer["body"].encode("utf-8")),
        "execute_item_bytes": stored_bytes(request),
    }


def succeed(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, if it is a success."""
    if answer["statusCode"] != 200:
        raise SystemExit(f"answered {answer['statusCode']}: {answer['body'][:500]}")
    return answer


def stored_bytes(request: dict[str, Any]) -> int:
    """Bytes of a request's piece, as DynamoDB counts them: names and values."""
    ids = json.loads(request["body"])
    caller = request["requestContext"]["authorizer"]["caller"]
    key = piece_key("runtime", caller, *(ids[name] for name in ("task_id", "execution_id", "attempt_id")))
    row = boto3.client("dynamodb").get_item(TableName=os.environ["PIECEWORK_TABLE"], Key={"pk": {"S": key}})["Item"]
    return sum(len(name) + size(value) for name, value in row.items())


def size(value: Any) -> int:
    """Bytes of one attribute's value; numbers take a byte per two digits and one more."""
    ((kind, content),) = value.items()
    return len(content) // 2 + 1 if kind == "N" else len(content)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure()), "utf-8")
