"""What people do under /ops/kernel: answer, cancel, run again, signal, forget, pause and resume."""

from typing import Any

from piecework.edge.ports import LambdaContext
from piecework.ops.door import serve
from piecework.ops.kernel.wiring import OpsKernelDoor
from piecework.ops.kernel_routes import KERNEL, ONE, STEP

door = OpsKernelDoor().ready("access", "telemetry", "kernel_acts")
acts = door.kernel_acts

ANSWERS = {
    f"{KERNEL}/executions": acts.create,
    f"{KERNEL}/executions/cancel": acts.cancel_all,
    f"{ONE}/cancel": acts.cancel,
    f"{ONE}/again": acts.again,
    f"{ONE}/signal": acts.signal,
    f"{ONE}/forget": acts.forget,
    STEP: acts.answer,
    f"{KERNEL}/agents/pause": acts.pause,
    f"{KERNEL}/agents/resume": acts.resume,
}


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve("ops_kernel_writing", ANSWERS, event, context, door.access, door.telemetry)
