"""The composition root: the kernel door's parts, made from the process environment when they are first used.

A function touches what it uses, so it imports and opens nothing else: who fires due times never loads a policy. Tests
put stores of their own in the place of the tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from piecework.aws.queues import Topic
from piecework.clock import now_in_ms
from piecework.errors import SettingsError
from piecework.extend.manifest import Bundle, load
from piecework.kernel.backends import HOSTED_QUEUE_URL, Backends
from piecework.kernel.hosted.wakes import Hosting, wakes
from piecework.kernel.model.ports.stores import Stores
from piecework.kernel.service.assigning import RoundRobin, assign
from piecework.kernel.service.commits import Commits
from piecework.kernel.service.dispatching import Queues, dispatch
from piecework.kernel.service.service import Kernel
from piecework.kernel.streams.hints import send_hints
from piecework.settings import Parts

if TYPE_CHECKING:
    from piecework.kernel.connected.lists import Connected
    from piecework.kernel.hosted.runs import Hosted
    from piecework.kernel.model.changes import Change
    from piecework.kernel.policy.rules import Policy
    from piecework.kernel.policy.verdicts import Call, Verdict
    from piecework.kernel.service.effects import Effect
    from piecework.kernel.service.notices import Notices
    from piecework.kernel.streams.liveness import Liveness
    from piecework.kernel.streams.opening import Streams


class KernelDoor(Backends, Parts):
    """The kernel door; a part that lacks a setting, or finds one without meaning, raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ, hears: Sequence[Effect] = ()) -> None:
        """`hears` are told of every change of this process, as its own streams are."""
        self._env, self._hears, self.clock = env, hears, now_in_ms

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What follows each commit, in this order; see service/effects.py."""
        return (self._send_hints, *self._hears, self._wake, self._dispatch, self._offer)

    @cached_property
    def kernel(self) -> Kernel:
        """The door's operations."""
        giving = (self.commits, self.assigner, self.dispatcher)
        return Kernel(self.stores, *giving, self._judge, self.windows, self._admit)

    @cached_property
    def streams(self) -> Streams:
        """Opens the streams of agents, runners and readers of a log."""
        from piecework.kernel.streams.opening import Streams

        giving = (self.kernel, self.assigner, self.dispatcher, self.liveness)
        return Streams(self.stores, self.outbox, *giving, self.settings, self.clock)

    @cached_property
    def liveness(self) -> Liveness:
        """Looks at what a due time is about."""
        from piecework.kernel.streams.liveness import Liveness

        return Liveness(self.stores, self.kernel, self.dispatcher, self.due_times, self.clock, self.nudge)

    @cached_property
    def hosted(self) -> Hosted:
        """Runs hosted agents."""
        from piecework.aws.steps_table import hosted_steps
        from piecework.kernel.hosted.runs import Hosted
        from piecework.kernel.store.hosted import HostedLeases

        if not self.can_wake:
            raise SettingsError(f"set {HOSTED_QUEUE_URL}")
        return Hosted(
            executions=self.executions,
            kernel=self.kernel,
            leases=HostedLeases(self.clients.dynamodb, self.places.table),
            steps=hosted_steps(self.clients.dynamodb, self.places.table),
            executor_of=self._bundle.named,
            wake=self.wake,
            log=self.telemetry,
            settings=self.settings,
            clock=self.clock,
            longest_wait_ms=self._longest_wait_ms,
        )

    @cached_property
    def notices(self) -> Notices:
        """Publishes notices about approvals."""
        from piecework.kernel.service.notices import Notices

        topic = self._env.get("PIECEWORK_KERNEL_TOPIC_ARN", "").strip()
        publish = Topic(lambda: self.clients.sns, topic).publish if topic else None
        return Notices(self.executions, publish, self._announce)

    @cached_property
    def commits(self) -> Commits:
        """Carries commands out, and lets the effects follow."""
        return Commits(self.executions, self.settings, self.environment, self.effects)

    @cached_property
    def assigner(self) -> RoundRobin:
        """Brings executions and their agents together, hosted ones too."""
        give = partial(assign, self.commits)
        return Hosting(self.agents, self.clock, give, self.hosted_names, can_wake=self.can_wake)

    @cached_property
    def dispatcher(self) -> Queues:
        """Brings jobs and runners together."""
        return Queues(self.runners, self.clock, partial(dispatch, self.commits))

    @cached_property
    def policy(self) -> Policy:
        """What every tool call is asked about; nothing but intents loads it."""
        from piecework.kernel.policy.sources import PolicySettings, policy_from
        from piecework.kernel.store.policy_bucket import PolicyBucket

        return policy_from(PolicySettings.from_env(self._env), PolicyBucket(lambda: self.clients.s3))

    @cached_property
    def stores(self) -> Stores:
        """What commands and streams read and write."""
        return Stores(self.executions, self.agents, self.runners)

    @cached_property
    def connected(self) -> Connected:
        """Lists who is connected."""
        from piecework.kernel.connected.lists import Connected

        return Connected(self.connections, self.clock, self.hosted_names)

    @cached_property
    def hosted_names(self) -> frozenset[str]:
        """The agent ids that registered executors serve; a broken executor keeps its name. No module is imported."""
        return frozenset((*self._bundle.names, *self._bundle.broken_names))

    @cached_property
    def _bundle(self) -> Bundle:
        return Bundle(load(self._env.get("PIECEWORK_EXECUTORS_PATH", "")), door="kernel")

    def _judge(self, call: Call) -> Verdict:
        return self.policy.decide(call)

    def _longest_wait_ms(self, agent_id: str) -> int:
        from piecework.kernel.policy.rules import longest_wait_ms

        return longest_wait_ms(self.policy, agent_id)

    def _send_hints(self, change: Change) -> None:
        send_hints(self.hints, change)

    def _wake(self, change: Change) -> None:
        if self.can_wake and wakes(change):
            self.wake(change.after.id, 0)

    def _dispatch(self, change: Change) -> None:
        self.dispatcher.follow(change)

    def _offer(self, change: Change) -> bool:
        return self.assigner.follow(change)
