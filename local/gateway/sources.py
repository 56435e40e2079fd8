"""Invokes functions without requests: SQS event source mappings and schedules, as the template declares them.

A message is deleted when its function has handled it; with batchItemFailures, when it is not among the failures. Other
messages come back when their visibility time-out ends, and become dead letters as the queue says. So do messages whose
function has been in the same chain too often (lineage.py).
"""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from local.aws import client
from local.gateway.lambdas.environments import FunctionFailed
from local.gateway.lambdas.lineage import LONGEST_CHAIN, TRACE_ATTRIBUTE, admitted
from local.gateway.lambdas.pool import Throttled
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.routes import QueueSource, ScheduleSource
from local.template import ACCOUNT, LOCAL_QUEUES, REGION

MAX_BATCHES: Final = 10  # of one queue at the same time
WAIT_SECONDS: Final = 2  # of one long poll; short, so that closing is quick
PAUSE_SECONDS: Final = 1.0  # after the queue was out of reach, or its function did not have a free environment
STOPPED: Final = "{name} has been in one chain of messages {longest} times; Lambda ends it without RecursiveLoop: Allow"
MAX_MESSAGES: Final = 10  # of one receive from SQS

Invoke = Callable[[Invocation], Awaitable[bytes]]
Message = dict[str, Any]


class QueuePoller:
    """Polls one queue and invokes its function; open until it is closed."""

    def __init__(self, source: QueueSource, invoke: Invoke, endpoint: str | None) -> None:
        self._source = source
        self._invoke = invoke
        self._sqs = client("sqs", endpoint)
        self._threads = ThreadPoolExecutor(MAX_BATCHES + 1, thread_name_prefix="queue")
        self._free = asyncio.Semaphore(min(MAX_BATCHES, source.at_once or MAX_BATCHES))
        self._batches: set[asyncio.Task[None]] = set()
        self._url = f"{LOCAL_QUEUES}/{source.queue_arn.rpartition(':')[2]}"  # as functions get it

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                with contextlib.suppress(ClientError, BotoCoreError):
                    await self._poll()
                    continue
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _poll(self) -> None:
        await self._free.acquire()
        try:
            answer = await self._call(
                "receive_message",
                QueueUrl=self._url,
                MaxNumberOfMessages=min(self._source.batch_size, MAX_MESSAGES),
                WaitTimeSeconds=WAIT_SECONDS,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
        finally:
            self._free.release()
        if messages:
            await self._free.acquire()
            batch = asyncio.create_task(self._take(messages))
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)

    async def _take(self, messages: Sequence[Message]) -> None:
        try:
            event = {"Records": [_record(message, self._source.queue_arn) for message in messages]}
            payload = await self._invoke(_invocation(event, self._trace(messages)))
            failed = _failures(payload) if self._source.reports_failures else frozenset()
            for message in messages:
                if failed is not None and message["MessageId"] not in failed:
                    await self._call("delete_message", QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        except Throttled:
            await asyncio.sleep(PAUSE_SECONDS)
        except (FunctionFailed, ClientError, BotoCoreError):
            pass  # the messages will come back
        finally:
            self._free.release()

    def _trace(self, messages: Sequence[Message]) -> str:
        """The trace that continues the messages' chain. Raises FunctionFailed if Lambda would end the chain."""
        headers = [message.get("Attributes", {}).get(TRACE_ATTRIBUTE, "") for message in messages]
        trace = admitted(headers, self._source.function, may_loop=self._source.may_loop)
        if trace is None:
            print(STOPPED.format(name=self._source.function, longest=LONGEST_CHAIN), flush=True)
            raise FunctionFailed("stopped as a loop")
        return trace

    async def _call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        loop = asyncio.get_running_loop()
        answer: Mapping[str, Any] = await loop.run_in_executor(
            self._threads, lambda: getattr(self._sqs, operation)(**arguments)
        )
        return answer


async def run_schedule(source: ScheduleSource, invoke: Invoke) -> None:
    """Invoke a function at every interval until cancelled, even after a failed invocation."""
    while True:
        await asyncio.sleep(source.seconds)
        with contextlib.suppress(FunctionFailed, Throttled):
            await invoke(_invocation(_scheduled(source)))


def _scheduled(source: ScheduleSource) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{source.name}"],
        "detail": {},
    }


def _record(message: Message, queue_arn: str) -> dict[str, Any]:
    attributes = {
        name: {key[0].lower() + key[1:]: text for key, text in value.items()}
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": attributes,
        "md5OfBody": message.get("MD5OfBody", ""),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _failures(payload: bytes) -> frozenset[str] | None:
    """Ids of the messages that were not handled; None for an invalid answer, which means all of them."""
    try:
        answer = json.loads(payload)
        return frozenset(entry["itemIdentifier"] for entry in (answer or {}).get("batchItemFailures") or ())
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _invocation(event: Mapping[str, Any], trace_id: str = "") -> Invocation:
    trace_id = trace_id or f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]}"
    return Invocation(str(uuid.uuid4()), trace_id, json.dumps(event, ensure_ascii=False).encode())
