"""An example for the kernel door: gives money back, if the policy allows it or a person approves it.

It needs an execution of the agent `refund_desk`, a runner that offers `pay.refund`, and a policy that says when a
person must approve; docs/kernel/hosted-agents.md has all three. It reads the request itself and does not use a model.
"""

import re
from typing import Final

from piecework.executors import InputRefused, Outcome, PolicyDenied, Refused, Run, Task, ToolFailed, executor
from piecework.jsons import Json

TOOL: Final = "pay.refund"
ORDER: Final = re.compile(r"\border[\s#:]*([A-Za-z0-9-]{2,40})", re.IGNORECASE | re.ASCII)
AMOUNT: Final = re.compile(r"(\d{1,7})[.,](\d{2})\b", re.ASCII)


@executor("refund_desk", task_types=(), expected_ms=200, needs_tools=True)
def refund_desk(task: Task, run: Run) -> Outcome:
    """Refund the requested amount, and report the result.

    Raises:
        InputRefused: the request does not name an order or an amount.
    """
    order, cents = read_request(task)
    try:
        receipt = run.tool(TOOL, {"order": order, "cents": cents})
    except PolicyDenied as denial:
        return Outcome({"order": order, "cents": cents, "refunded": False, "because": denial.message})
    except ToolFailed as failure:
        raise Refused(f"the refund of {order} failed: {failure.message}") from None
    return Outcome({"order": order, "cents": cents, "refunded": True, "receipt": receipt})


def read_request(task: Task) -> tuple[str, int]:
    """The order and the amount in cents, from the input's members or from its prompt.

    Raises:
        InputRefused: one of them is missing.
    """
    given: Json = task.inputs if isinstance(task.inputs, dict) else {}
    order, cents = given.get("order"), given.get("cents")
    text = task.prompt or ""
    if order is None and (named := ORDER.search(text)):
        order = named[1]
    if cents is None and (amount := AMOUNT.search(text)):
        cents = int(amount[1]) * 100 + int(amount[2])
    if not isinstance(order, str) or not order:
        raise InputRefused("name the order: input.order, or `order A-17` in the prompt")
    if isinstance(cents, bool) or not isinstance(cents, int) or cents <= 0:
        raise InputRefused("name the amount: input.cents, or `42.00` in the prompt")
    return order, cents
