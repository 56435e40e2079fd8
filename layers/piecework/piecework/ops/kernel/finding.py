"""What has an id, among executions, steps, approvals, agents and runners.

A step lies under its execution's id, and no index has it. But its own id tells when it was made (UUIDv7). So a call
that waits for a person is found in the list of those, which is by that time. Any other step is looked for in the
executions that were created last before it: `EXECUTIONS` of them, from `until_ms` backwards. The id of a notice leads
to its approval, if a webhook told of it: it is looked for in the newest `WEBHOOKS` of them.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.edge.http import Response
from piecework.kernel.model.ports.executions import Executions, Filter
from piecework.ops.door import Asked
from piecework.ops.finding.answers import Found, Looked, Sought, body_of
from piecework.ops.hooks import HookRows
from piecework.ops.kernel.asking import answered

if TYPE_CHECKING:
    from piecework.kernel.connected.lists import Connected

STEP_ID: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
KINDS: Final = ("execution", "agent", "runner", "approval", "step")
BY: Final = ("execution_id", "agent_id", "runner_id", "step_id", "notice_id", "execution")
NOTICE_ID: Final = re.compile(r"[0-9a-f]{32}")
WEBHOOKS: Final = 100  # that a notice is looked for in
EXECUTIONS: Final = 200  # that a step is looked for in
APPROVALS: Final = 25  # that wait since the time of a step, or later


class KernelFinds:
    """Looks for ids; callers were checked by the door."""

    def __init__(
        self, executions: Executions, connected: "Callable[[], Connected]", hooks: HookRows, clock: Callable[[], int]
    ) -> None:
        self._executions, self._connected, self._hooks, self._clock = executions, connected, hooks, clock

    def find(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/find. Raises BadRequest."""
        sought = Sought.of(asked.request.query, self._clock())
        found = self._by_key(sought.id)
        looked = [Looked(kind, f"{kind}_id") for kind in KINDS[:3]]
        if not found and (made := STEP_ID.fullmatch(sought.id)):
            found, since_ms = self._step(sought, int(made[1] + made[2], 16))
            looked += [Looked(kind, "step_id", since_ms) for kind in KINDS[3:]]
        elif not found and NOTICE_ID.fullmatch(sought.id):
            found, since_ms = self._notice(sought)
            looked.append(Looked("approval", "notice_id", since_ms))
        return answered(body_of(found, looked))

    def _by_key(self, wanted: str) -> list[Found]:
        connected = self._connected()
        found = [Found("execution", wanted, "execution_id")] if self._executions.standing([wanted]) else []
        if connected.has_agent(wanted):
            found.append(Found("agent", wanted, "agent_id"))
        elif self._executions.rows(Filter(agent_id=wanted), None, 1).rows:
            found.append(Found("agent", wanted, "execution"))  # it has not connected lately, and executions name it
        return [*found, Found("runner", wanted, "runner_id")] if connected.has_runner(wanted) else found

    def _notice(self, sought: Sought) -> tuple[list[Found], int | None]:
        page = self._hooks.newest(f"{sought.until_ms + 1:015d}", WEBHOOKS)
        told = {one.step_id: one.execution_id for one in page.heads if one.event_id == sought.id and one.step_id}
        found = [Found("approval", step_id, "notice_id", of) for step_id, of in told.items()]
        return found, int(page.then.partition("#")[0]) if page.then else None

    def _step(self, sought: Sought, made_ms: int) -> tuple[list[Found], int | None]:
        waiting = self._executions.approvals(APPROVALS, f"{made_ms:015d}")
        if of := next((one.execution_id for one in waiting if one.step_id == sought.id), ""):
            return [Found("approval", sought.id, "step_id", of)], None
        which = Filter(created_before_ms=min(made_ms, sought.until_ms) + 1)  # a step is never older than its execution
        page = self._executions.rows(which, None, EXECUTIONS)
        of = self._executions.holder(sought.id, [row.id for row in page.rows])
        since_ms = page.then[0] if page.then else None
        if not of:
            return [], since_ms
        is_asked = self._executions.approval(of, sought.id, with_arguments=False) is not None
        return [Found("approval" if is_asked else "step", sought.id, "step_id", of)], since_ms
