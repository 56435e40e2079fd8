"""A function that does what the request's body says, or shows its event."""

import base64
import json
import os
import time
from pathlib import Path


def handler(event, context):
    raw = event["body"] or ""
    text = base64.b64decode(raw).decode("utf-8", "replace") if event["isBase64Encoded"] else raw
    try:
        wish = json.loads(text)
    except ValueError:
        wish = {}
    if "begin" in wish:
        Path(wish["begin"]).touch()
    while "await" in wish and not Path(wish["await"]).exists():
        time.sleep(0.02)
    if "sleep" in wish:
        time.sleep(wish["sleep"])
    if "touch" in wish:
        part = Path(f"{wish['touch']}.part")
        part.write_text(str(os.getpid()))
        part.rename(wish["touch"])  # so it is there with all that it says
    if "exit" in wish:
        os._exit(wish["exit"])
    if "raise" in wish:
        raise ValueError(wish["raise"])
    if "size" in wish:
        return {"statusCode": 200, "body": "x" * wish["size"]}
    if "response" in wish:
        return wish["response"]
    shown = {
        "event": event,
        "pid": os.getpid(),
        "environment": dict(os.environ),
        "remaining_ms": context.get_remaining_time_in_millis(),
        "request_id": context.aws_request_id,
        "trace_id": os.environ.get("_X_AMZN_TRACE_ID"),
        "length": len(text),
    }
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(shown)}
