"""What the console shows in browser tests: pieces with evidence, hired work, hostile texts, a dead letter."""

from dataclasses import dataclass
from typing import Any

from local.facilitator.server import StubFacilitator
from piecework.durable.pieces import piece_key
from tests.browser.hired import seed_hired
from tests.support.machine import Aws, RunningGateway
from tests.support.runtime.requests import a_scripted_request, execute

HOSTILE = "<img src=x onerror=alert(1)>\"'`${7*7}</script><script>document.title=1//"  # 80 bytes are kept
DEAD_LETTERS = "piecework-task-dead-letters"


@dataclass(frozen=True)
class Seeded:
    """What was seeded, by the names that tests use: `whole`, `changed` (in the bucket) and `hostile`."""

    keys: dict[str, str]  # of pieces
    contracts: dict[str, str]  # of hired work, by the names of `seed_hired`


def seed(runtime: RunningGateway, emulated: Aws, facilitator: StubFacilitator) -> Seeded:
    """Make all of it through the doors; then change the bytes of one piece's evidence."""
    whole = a_piece(runtime, artifacts=[["notes", "what was found", "text/plain"]])
    changed = a_piece(runtime, artifacts=[["notes", "bytes that will be changed", "text/plain"]])
    hostile = a_piece(runtime, ids=HOSTILE, artifacts=[[HOSTILE, HOSTILE, "text/html"]])
    _overwrite(emulated, b"bytes that will be changed", b"bytes that were changed :(")
    sqs = emulated.client("sqs")
    url = sqs.get_queue_url(QueueName=DEAD_LETTERS)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=f'{{"kind":"nothing","of":"{HOSTILE[:30]}"}}')
    contracts = seed_hired(emulated, facilitator, HOSTILE)
    return Seeded({"whole": whole, "changed": changed, "hostile": hostile}, contracts)


def a_piece(runtime: RunningGateway, *, ids: str = "", **script: Any) -> str:
    """The key of a new piece of the runtime door."""
    request = a_scripted_request({"output": {"answer": "42"}, **script})
    if ids:
        request |= {"task_id": ids}
    answer = execute(runtime, request)
    assert answer.status_code == 200, answer.text
    return piece_key("runtime", "anonymous", *(request[name] for name in ("task_id", "execution_id", "attempt_id")))


def _overwrite(emulated: Aws, old: bytes, new: bytes) -> None:
    s3 = emulated.boto3("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for found in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            body = s3.get_object(Bucket=bucket["Name"], Key=found["Key"])["Body"].read()
            if body == old:
                s3.put_object(Bucket=bucket["Name"], Key=found["Key"], Body=new)
