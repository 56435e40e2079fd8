"""The composition root: the worker door's parts, made from the process environment when they are first used.

A function touches what it uses, so it imports and opens nothing else; tests put fakes in the place of parts. Nothing
unique (ids, tokens, times) is made here, so an environment may be restored from a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from piecework.errors import Unavailable
from piecework.settings import Parts
from piecework.worker.backends import Backends
from piecework.worker.public_url import PublicUrl
from piecework.worker.rates import Rates

if TYPE_CHECKING:
    from piecework.jsons import Json
    from piecework.webhooks.sending import Sender
    from piecework.worker.answer.bodies import Bodies
    from piecework.worker.answer.partial_output import Listener
    from piecework.worker.contract.contracts import ContractRecord
    from piecework.worker.contract.registration import Registration
    from piecework.worker.payment.cases import Cases
    from piecework.worker.payment.charging import Charging
    from piecework.worker.payment.facilitator import SupportedKinds
    from piecework.worker.payment.verifying import Verifying
    from piecework.worker.record.execution import Execution
    from piecework.worker.routes import HireRoutes
    from piecework.worker.stream.readers import Readers
    from piecework.worker.stream.streams import Streams
    from piecework.worker.task.attempts import Attempts
    from piecework.worker.task.flow import CurrentRecord
    from piecework.worker.task.resume import Resume
    from piecework.worker.task.views import Views
    from piecework.worker.task.work import Work

OPEN_SECONDS: Final = 900  # of a stream: Lambda ends every run by then
HELD_SECONDS: Final = 60  # of a piecewise answer, which waits 20 s at most


class WorkerDoor(Backends, Parts):
    """The worker door; a part that lacks a setting, or finds one without meaning, raises SettingsError."""

    @cached_property
    def public_url(self) -> PublicUrl:
        """The door's own address, from the settings or from what requests tell."""
        return PublicUrl.of(self.settings.public_base_url, self._env)

    @cached_property
    def rates(self) -> Rates:
        return Rates()

    @cached_property
    def manifest(self) -> dict[str, Json]:
        """What GET /manifest tells; the door's address stays empty where requests tell it."""
        from piecework.worker.manifest import manifest_of

        return manifest_of(self.settings, self.bundle.entries, self.bundle.default)

    @cached_property
    def registration(self) -> Registration:
        """The flow of POST /contracts."""
        from piecework.worker.contract.contracts import WorkerIdentity
        from piecework.worker.contract.registration import Registration

        identity, offer = WorkerIdentity.of(self.settings), self.cases.offer
        where, current = (self.public_url, self.clock), self.executions.read
        return Registration(self.contracts, identity, offer, *where, current, self.admit)

    @cached_property
    def routes(self) -> HireRoutes:
        """POST /execute and GET /tasks/{task_id}."""
        from piecework.worker.routes import HireRoutes
        from piecework.worker.task.flow import Hire
        from piecework.worker.task.start import StartAttempt

        start = StartAttempt(
            executions=self.executions,
            attempts=self.attempts,
            cases=self.cases,
            views=self.views,
            verifying=self._verifying,
            bounded=self.bounded,
            current=self._current.current,
            tell=self.resume.tell,
            clock=self.clock,
            log=self.telemetry,
        )
        hire = Hire(
            contracts=self.contracts,
            cases=self.cases,
            current=self._current,
            start=start,
            views=self.views,
            kinds=self._kinds,
            clock=self.clock,
            count=self.rates.known,
            admit=self.admit,
        )
        return HireRoutes(hire, self.contracts, self.views, self.clock, self.settings.max_body_bytes)

    @cached_property
    def resume(self) -> Resume:
        """What a queued task and a due time have done."""
        from piecework.worker.payment.voided import VoidedAuthorizations
        from piecework.worker.task.resume import Resume

        voided = VoidedAuthorizations(
            self.contracts, self.executions, self.due_times, self.chain_of, self.clock, self.telemetry, self.counts
        )
        return Resume(
            contracts=self.contracts,
            executions=self.executions,
            cases=self.cases,
            attempts=self.attempts,
            charging=self.charging,
            voided=voided,
            due_times=self.due_times,
            announce=self.announce,
            clock=self.clock,
            log=self.telemetry,
        )

    @cached_property
    def cases(self) -> Cases:
        from piecework.worker.payment.cases import Cases

        return Cases(self.bundle, self.public_url)

    @cached_property
    def charging(self) -> Charging:
        from piecework.worker.payment.charging import Charging

        return Charging(
            executions=self.executions,
            facilitator=self.facilitator,
            chain_of=self.chain_of,
            clock=self.clock,
            nudge=self.nudge,
            log=self.telemetry,
            counts=self.counts,
        )

    @cached_property
    def attempts(self) -> Attempts:
        from piecework.worker.task.attempts import Attempts

        return Attempts(
            executions=self.executions,
            work=self.work,
            charging=self.charging,
            clock=self.clock,
            enqueue=self.enqueue,
            log=self.telemetry,
            renewal=self.renewal,
            keeps_days=self.settings.result_days,
        )

    @cached_property
    def work(self) -> Work:
        from piecework.worker.task.work import Work

        def record_item(execution: Execution, item: Mapping[str, Json]) -> None:
            self.executions.add_item(execution.contract_id, execution.lease.token, item)

        return Work(
            files=self.files,
            texts=self.texts,
            steps=self.steps,
            log=self.telemetry,
            clock=self.clock,
            inline_bytes=self.settings.inline_output_bytes,
            listener=self.listener,
            record_item=record_item,
        )

    @cached_property
    def views(self) -> Views:
        from piecework.worker.task.views import Views

        return Views(self.work, self.bodies, self.clock, self.settings.x402_v1, self.settings.result_days)

    @cached_property
    def bodies(self) -> Bodies:
        from piecework.worker.answer.bodies import Bodies

        return Bodies(self.public_url, self.files, self.clock, self.stream_url)

    @cached_property
    def streams(self) -> Streams:
        """The events of tasks."""
        from piecework.worker.stream.streams import HiredTasks, Streams

        tasks = HiredTasks(self.contracts, self.executions, self.bodies, self.texts)
        return Streams(self.stream_log, tasks, self.clock)

    @cached_property
    def stays_open(self) -> bool:
        """Whether a stream goes on while nothing is new."""
        return self.settings.sse_mode == "streaming"

    @cached_property
    def readers(self) -> Readers:
        """How many may read a contract's streams at once."""
        from piecework.worker.stream.readers import Readers

        return Readers(self.seats, self.clock, OPEN_SECONDS if self.stays_open else HELD_SECONDS)

    @cached_property
    def sender(self) -> Sender:
        """What sends webhooks."""
        from piecework.webhooks.sending import SafePost, Sender
        from piecework.worker.webhook.webhooks import OWNER, USER_AGENT

        return Sender(
            self.deliveries,
            SafePost(),
            self.ask_webhook,
            self.clock,
            warn=self.telemetry.warning,
            owner=OWNER,
            user_agent=USER_AGENT,
        )

    def stream_url(self, execution: Execution) -> str | None:
        """Where a task's stream is; a worker without a key offers none."""
        if not any(self._env.get(name) for name in ("PIECEWORK_STREAM_KEY", "PIECEWORK_STREAM_KEY_ARN")):
            return None
        try:
            tokens = self.stream_tokens()
        except Unavailable:  # an answer that a payment depends on must not fail for want of its stream
            return None
        return tokens.url(self.public_url, execution.contract_id, execution.task_id, self.clock())

    def announce(self, execution: Execution, contract: ContractRecord) -> None:
        """Send the end of a task to the seeker's webhook. Raises PieceworkError."""
        from piecework.webhooks.deliveries import Announcer
        from piecework.worker.webhook.webhooks import delivery_of

        delivery = delivery_of(
            contract,
            self.views.recorded(execution, contract).body,
            generation=execution.generation,
            occurred_at_ms=execution.outcome.finished_at_ms,
            poll_url=self.bodies.poll_url(execution),
        )
        Announcer(self.deliveries, self.ask_webhook).announce(delivery)

    @cached_property
    def listener(self) -> Listener:
        """Hears what running tasks say of themselves: their streams."""
        from piecework.worker.stream.streams import Recording

        return Recording(self.stream_log, self.settings.stream_unpaid_output)

    @cached_property
    def bounded(self) -> Callable[[Callable[[], None], float], None]:
        """Runs work inside a request for a bounded time."""
        from piecework.worker.task.bounding import in_thread

        return in_thread

    @cached_property
    def renewal(self) -> Callable[[Callable[[], None]], AbstractContextManager[object]]:
        """Renews a lease while work goes on."""
        from piecework.durable.renewal import Renewal

        return Renewal

    @cached_property
    def _kinds(self) -> SupportedKinds:
        from piecework.worker.payment.facilitator import SupportedKinds

        return SupportedKinds(self.facilitator, sees=lambda network: self.chain_of(network) is not None)

    @cached_property
    def _verifying(self) -> Verifying:
        from piecework.worker.payment.verifying import Verifying

        return Verifying(
            executions=self.executions,
            facilitator=self.facilitator,
            kinds=self._kinds,
            clock=self.clock,
            log=self.telemetry,
            counts=self.counts,
            x402_v1=self.settings.x402_v1,
            bind_payer=self.settings.bind_payer,
        )

    @cached_property
    def _current(self) -> CurrentRecord:
        from piecework.worker.task.flow import CurrentRecord

        return CurrentRecord(
            executions=self.executions,
            cases=self.cases,
            attempts=self.attempts,
            tell=self.resume.tell,
            nudge=self.nudge,
            clock=self.clock,
            log=self.telemetry,
        )
