"""Functions that are made to do, apart from any gateway, what would take a minute or a seeker of its own there."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from local import aws
from local.gateway.lambdas.pool import Pool
from local.gateway.lambdas.recording import Recorder
from local.gateway.lambdas.variables import ROOT, of_function
from local.gateway.routes import Function, api_of
from local.gateway.sources import _invocation
from piecework.webhooks.deliveries import Delivery, Try
from piecework.webhooks.sending import GONE, Sender
from piecework.webhooks.store import kernel_deliveries, work_deliveries
from tests.support.aws_calls import folder
from tests.support.machine import Aws

DRAIN_SECONDS = 0.2  # for connections whose client has gone


def sweep(embedded_aws: Aws) -> bytes:
    """What the schedule does each minute, in a process of the due function."""

    async def act(function: Function, variables: dict[str, str]) -> bytes:
        pool = Pool(function, variables)
        await pool.open()
        try:
            return await pool.invoke(_invocation({"source": "aws.events"}))
        finally:
            await pool.close()

    return asyncio.run(_recorded(embedded_aws, "WorkerDueFunction", act))


def stop(embedded_aws: Aws) -> str:
    """What the webhook function does when a seeker's server answers that it wants no more."""
    return _stop(embedded_aws, "WebhookFunction", "PIECEWORK_WORK_TABLE", "WorkerApi")


def stop_webhooks(embedded_aws: Aws) -> str:
    """What the kernel door's sender does when a server of the operator's answers that it wants no more."""
    return _stop(embedded_aws, "KernelWebhooksFunction", "PIECEWORK_KERNEL_TABLE", "KernelApi")


def _stop(embedded_aws: Aws, name: str, table: str, api: str) -> str:
    kept_in = {"WorkerApi": work_deliveries, "KernelApi": kernel_deliveries}[api]

    def handle(variables: dict[str, str]) -> str:
        client = aws.client("dynamodb", variables["AWS_ENDPOINT_URL"], embedded_aws.variables)
        deliveries = kept_in(client, variables[table])
        sender = Sender(deliveries, lambda *_: GONE, lambda *_: None, lambda: 0)
        try:
            return sender.handle(Try(GONE_DELIVERY.owner_id, GONE_DELIVERY.event_id))
        finally:
            client.close()

    async def act(function: Function, variables: dict[str, str]) -> str:
        return await asyncio.to_thread(handle, variables)

    given = api_of(embedded_aws.template, api).functions[name].environment
    kept_in(embedded_aws.client("dynamodb"), given[table]).put(GONE_DELIVERY)
    return asyncio.run(_recorded(embedded_aws, name, act, api))


def look_late(embedded_aws: Aws) -> None:
    """What the kernel door's streams do when they look at a lost runner after its connection is over."""
    asyncio.run(_run(embedded_aws.variables | _of_streams(embedded_aws), "prepare"))

    async def act(function: Function, variables: dict[str, str]) -> None:
        await _run(variables, "look")

    asyncio.run(_recorded(embedded_aws, "KernelStreamsFunction", act, api="KernelApi"))


def _of_streams(embedded_aws: Aws) -> dict[str, str]:
    function = api_of(embedded_aws.template, "KernelApi").functions["KernelStreamsFunction"]
    return of_function(function, embedded_aws.variables, public_url="http://127.0.0.1")


async def _run(variables: dict[str, str], part: str) -> None:
    given = {**os.environ, **variables}
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "tests" / "iam" / "late_look.py"), part, env=given
    )
    assert await program.wait() == 0, part


GONE_DELIVERY = Delivery("ctr_gone", "evt_gone", "https://seeker.invalid/hook", b"{}")


async def _recorded(
    embedded_aws: Aws, name: str, act: Callable[[Function, dict[str, str]], Awaitable[Any]], api: str = "WorkerApi"
) -> Any:
    function = api_of(embedded_aws.template, api).functions[name]
    variables = of_function(function, embedded_aws.variables, public_url="http://127.0.0.1")
    recorder = Recorder(name, variables, folder() / f"{os.getpid()}-alone.jsonl")
    await recorder.open()
    try:
        return await act(function, recorder.variables)
    finally:
        recorder.close()
        await asyncio.sleep(DRAIN_SECONDS)
