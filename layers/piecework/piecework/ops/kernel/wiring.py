"""The composition root of the kernel's part of the operator's door."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from piecework.edge.http import Response
from piecework.ops.door import Asked
from piecework.ops.wiring import OpsDoor
from piecework.settings import needed

if TYPE_CHECKING:
    from piecework.kernel.wiring import KernelDoor
    from piecework.ops.hooks import HookRows
    from piecework.ops.kernel.acting import KernelActs
    from piecework.ops.kernel.finding import KernelFinds
    from piecework.ops.kernel.policies import Policies
    from piecework.ops.kernel.reading import KernelViews
    from piecework.ops.kernel.watching import Watches
    from piecework.ops.kernel.webhooks import KernelHookViews


class OpsKernelDoor(OpsDoor):
    """The door with the kernel's stores. A part that lacks a setting, or cannot read it, raises SettingsError."""

    def find_in_kernel(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/find."""
        return self._finds.find(asked)

    def policy(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/policy."""
        return self._policies.show(asked)

    def evaluate(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/policy/evaluate."""
        return self._policies.evaluate(asked)

    def webhooks(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/webhooks."""
        return self._hook_views.listed(asked)

    @cached_property
    def kernel_views(self) -> KernelViews:
        """What is read of the kernel's executions, approvals, agents and runners."""
        from piecework.kernel.service.reasons import Reasons
        from piecework.ops.kernel.reading import KernelViews

        kernel = self.kernel
        reasons = Reasons(kernel.executions, kernel.assigner.service, kernel.clock)
        return KernelViews(kernel.executions, kernel.runners, reasons, lambda: kernel.connected)

    @cached_property
    def _finds(self) -> KernelFinds:
        """What has an id in the kernel."""
        from piecework.ops.kernel.finding import KernelFinds

        kernel = self.kernel
        return KernelFinds(kernel.executions, lambda: kernel.connected, self._hook_rows, kernel.clock)

    @cached_property
    def _policies(self) -> Policies:
        """The kernel's policy, as it is deployed now."""
        from piecework.kernel.policy.sources import PolicySettings, policy_from, texts_of
        from piecework.kernel.store.policy_bucket import PolicyBucket
        from piecework.ops.kernel.policies import Policies

        settings, objects = PolicySettings.from_env(self._env), PolicyBucket(lambda: self._clients.s3)
        return Policies(lambda: policy_from(settings, objects), lambda: texts_of(settings, objects), self.kernel.clock)

    @cached_property
    def kernel_acts(self) -> KernelActs:
        """What people do to the kernel's executions and agents."""
        from piecework.ops.kernel.acting import KernelActs

        kernel = self.kernel
        return KernelActs(lambda: kernel.kernel)

    @cached_property
    def kernel(self) -> KernelDoor:
        """The kernel door's own parts, over its stores; neither its tokens nor its roles are asked."""
        from piecework.kernel.wiring import KernelDoor

        return KernelDoor(self._env)

    @cached_property
    def _hook_views(self) -> KernelHookViews:
        from piecework.ops.kernel.webhooks import KernelHookViews

        return KernelHookViews(self._hook_rows)

    @cached_property
    def _hook_rows(self) -> HookRows:
        from piecework.ops.store.kernel_webhooks import KernelHookRowsTable

        (table,) = needed(self._env, "PIECEWORK_KERNEL_TABLE")
        return KernelHookRowsTable(self._clients.dynamodb, table)

    @cached_property
    def watches(self) -> Watches:
        """Opens streams of executions' logs."""
        from piecework.ops.kernel.watching import Watches

        kernel = self.kernel
        return Watches(kernel.executions, kernel.settings, kernel.clock, self.telemetry)
