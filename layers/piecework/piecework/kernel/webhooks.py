"""The composition root of the function that sends the kernel door's webhooks; it imports nothing else of the door."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from piecework.aws.chosen import clients_of
from piecework.aws.queues import Queue
from piecework.aws.telemetry import LambdaTelemetry
from piecework.clock import now_in_ms
from piecework.kernel.model.notices import OWNER
from piecework.settings import Parts, needed
from piecework.webhooks.deliveries import Try, asking_on
from piecework.webhooks.receivers import Receiver, addressed_by, parse_receivers
from piecework.webhooks.sending import SafePost, Sender
from piecework.webhooks.store import kernel_deliveries

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.webhooks.sending import Post

USER_AGENT: Final = "piecework-kernel/1"
RECEIVERS: Final = "PIECEWORK_KERNEL_WEBHOOKS"


class KernelWebhooks(Parts):
    """Sends webhooks; a part that lacks a setting raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env, self.clock = env, now_in_ms

    @cached_property
    def sender(self) -> Sender:
        """What makes the tries."""
        (table,) = needed(self._env, "PIECEWORK_KERNEL_TABLE")
        return Sender(
            kernel_deliveries(self._clients.dynamodb, table),
            self.post,
            self._ask,
            self.clock,
            warn=self.telemetry.warning,
            owner=OWNER,
            user_agent=USER_AGENT,
            addressed=addressed_by(self.receivers),
        )

    @cached_property
    def post(self) -> Post:
        """The way out: to public hosts only."""
        return SafePost()

    @cached_property
    def telemetry(self) -> LambdaTelemetry:
        return LambdaTelemetry(self._env)

    def receivers(self) -> Mapping[str, Receiver]:
        """The receivers as they are now: from the environment on a local machine, from the secret on Lambda.

        Raises:
            SettingsError: the list cannot be read.
            Unavailable: the secret is out of reach.
        """
        local, arn = self._env.get(RECEIVERS, ""), self._env.get(f"{RECEIVERS}_SECRET_ARN", "")
        if local or not arn:
            return parse_receivers(local)
        from piecework.aws.secrets import secret_text

        return parse_receivers(secret_text(arn))

    def _ask(self, wanted: Try, seconds: int) -> None:
        asking_on(self._queue, OWNER)(wanted, seconds)

    @cached_property
    def _queue(self) -> Queue:
        (url,) = needed(self._env, f"{RECEIVERS}_QUEUE_URL")
        return Queue(lambda: self._clients.sqs, url)

    @cached_property
    def _clients(self) -> Clients:
        return clients_of(self._env)
