"""Everything under /ops/kernel that only reads; also answers every method that its paths do not serve."""

from typing import Any

from piecework.edge.ports import LambdaContext
from piecework.ops.door import serve
from piecework.ops.kernel.wiring import OpsKernelDoor
from piecework.ops.kernel_routes import EVALUATE, KERNEL, ONE, STEP

door = OpsKernelDoor().ready("access", "telemetry", "kernel_views")
views = door.kernel_views

ANSWERS = {
    f"{KERNEL}/executions": views.listed,
    ONE: views.one,
    f"{ONE}/events": views.events,
    f"{KERNEL}/approvals": views.approvals,
    STEP: views.approval,
    f"{KERNEL}/find": door.find_in_kernel,
    f"{KERNEL}/agents": views.agents,
    f"{KERNEL}/runners": views.runners,
    f"{KERNEL}/tools": views.tools,
    f"{KERNEL}/policy": door.policy,
    f"{KERNEL}/webhooks": door.webhooks,
    EVALUATE: door.evaluate,
}


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("ops_kernel_reading", ANSWERS, event, context, door.access, door.telemetry)
