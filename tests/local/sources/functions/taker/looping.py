"""Sends a message to the queue that it came from, as often as the message says, and writes each one down."""

import json
import os
from pathlib import Path

from botocore.session import Session

TAKEN = Path(os.environ["TEST_RUNS"])
sqs = Session().create_client("sqs", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def handler(event, context):
    [record] = event["Records"]
    with TAKEN.open("a") as out:
        out.write(json.dumps(record) + "\n")
    message = json.loads(record["body"])
    if message["left"]:
        name = record["eventSourceARN"].rpartition(":")[2]
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        body = json.dumps({**message, "left": message["left"] - 1})
        sqs.send_message(QueueUrl=url, MessageBody=body)
