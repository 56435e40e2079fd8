"""Takes messages: each body says what to do with it, and every one is written down."""

import json
import os
from pathlib import Path

TAKEN = Path(os.environ["TEST_RUNS"])


def handler(event, context):
    if "Records" not in event:
        lines = TAKEN.read_text().splitlines() if TAKEN.exists() else []
        return {"statusCode": 200, "body": json.dumps([json.loads(line) for line in lines])}
    with TAKEN.open("a") as out:
        out.writelines(json.dumps(record) + "\n" for record in event["Records"])
    bodies = [record["body"] for record in event["Records"]]
    if "raise" in bodies:
        raise RuntimeError("as asked")
    failed = [record["messageId"] for record in event["Records"] if record["body"].startswith("fail")]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}
