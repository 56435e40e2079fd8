"""Baseline (d): a request authorizer that reads its `name=secret` tokens with a boto3 client made at import, and keeps them for a minute."""
import base64, hmac, os, time
from typing import Optional

import boto3

secrets = boto3.client("secretsmanager")
KEPT_SECONDS = 60
kept: tuple[float, dict[str, str]] = (0.0, {})


def tokens() -> dict[str, str]:
    global kept
    if not kept[1] or time.monotonic() - kept[0] > KEPT_SECONDS:
        text = secrets.get_secret_value(SecretId=os.environ["TOKENS_SECRET_ARN"])["SecretString"]
        kept = (time.monotonic(), dict(entry.strip().split("=", 1) for entry in text.split(",")))
    return kept[1]


def caller(headers: dict) -> Optional[str]:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        _, _, value = base64.b64decode(value).decode().partition(":")
    return next((name for name, secret in tokens().items() if hmac.compare_digest(secret.encode(), value.encode())), None)


def handler(event, context):
    name = caller({key.lower(): value for key, value in (event.get("headers") or {}).items()})
    api = "/".join(event["methodArn"].split("/")[:2])
    statement = {"Effect": "Allow" if name else "Deny", "Action": "execute-api:Invoke", "Resource": f"{api}/*"}
    return {"principalId": name or "unknown", "policyDocument": {"Version": "2012-10-17", "Statement": [statement]}, "context": {"caller": name or ""}}
