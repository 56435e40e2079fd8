"""The composition root: the operator's door's parts, made from the process environment when they are first used."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from piecework.aws.telemetry import LambdaTelemetry
from piecework.edge.http import Response
from piecework.edge.roles import parse_roles
from piecework.edge.tokens import Tokens, Warned, parse_tokens
from piecework.errors import NotFound, SettingsError
from piecework.jsons import Json
from piecework.ops.access import Access
from piecework.ops.door import BYTES, Asked
from piecework.settings import Parts, needed

if TYPE_CHECKING:
    from piecework.aws.clients import Clients
    from piecework.ops.finding.finder import Finder
    from piecework.ops.forgetting.verbs import Forgets
    from piecework.ops.pausing import Pausing
    from piecework.ops.people.sign_in import SignIn
    from piecework.ops.pieces import PieceViews
    from piecework.ops.records import Records
    from piecework.ops.standing import Standing
    from piecework.ops.status import Status, Watched
    from piecework.ops.tasks import TaskViews
    from piecework.ops.verbs import Hooks, Verbs
    from piecework.ops.verdicts import Verdicts

TOKENS: Final = "PIECEWORK_OPS_TOKENS"
ROLES: Final = "PIECEWORK_OPS_TOKEN_ROLES"
ISSUER: Final = "PIECEWORK_OPS_ISSUER"
OPEN: Final = "tokens are not configured: everybody who can reach this door may read and change what is stored"


class OpsDoor(Parts):
    """The operator's door. A part whose setting is missing or cannot be read raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env

    @cached_property
    def telemetry(self) -> LambdaTelemetry:
        return LambdaTelemetry(self._env)

    @cached_property
    def access(self) -> Access:
        """Who may use the door. Without tokens and sign-in it is open on a local machine, and does not start on AWS."""
        has_tokens = self._env.get(f"{TOKENS}_SECRET_ARN") or parse_tokens(self._env.get(TOKENS, ""))
        if not has_tokens and not self._people:
            if not self._is_local:
                raise SettingsError(f"set {TOKENS}_SECRET_ARN or {ISSUER}: the operator's door is never open on AWS")
            self.telemetry.warning("door_is_open", advice=OPEN)
        return Access(self._tokens, parse_roles(self._env.get(ROLES, "")), self._people)

    @property
    def called(self) -> list[str]:
        """The origins beside the door's own that the console's pages call."""
        from piecework.ops.console.policy import called

        return called(self._env)

    def health(self, asked: Asked) -> Json:
        """The answer of GET /ops/health: that the function runs."""
        return {"status": "ok"}

    def whoami(self, asked: Asked) -> Json:
        """The answer of GET /ops/whoami: the caller's name, empty at an open door, and the roles that hold."""
        return {"name": asked.caller.name, "roles": sorted(role.value for role in asked.caller.roles)}

    def sign_in(self, asked: Asked) -> Json:
        """The answer of GET /ops/sign-in: how a browser signs somebody in; `tokens` where people cannot."""
        return self._people.described() if self._people else {"kind": "tokens"}

    def status(self, asked: Asked) -> Json:
        """The answer of GET /ops/status."""
        return self._status.read(asked.caller)

    def pieces(self, asked: Asked) -> Json:
        """The answer of GET /ops/pieces."""
        return self._pieces.page(asked.caller, asked.request.query)

    def piece(self, asked: Asked) -> Json:
        """The answer of GET /ops/pieces/{key}."""
        return self._pieces.one(asked.caller, asked.named["key"])

    def named_piece(self, asked: Asked) -> Json:
        """The answer of GET /ops/piece."""
        return self._pieces.named(asked.caller, asked.request.query)

    def verdicts(self, asked: Asked) -> Json:
        """The answer of GET /ops/verdicts."""
        return self._verdicts.page(asked.caller, asked.request.query)

    def piece_verdicts(self, asked: Asked) -> Json:
        """The answer of GET /ops/pieces/{key}/verdicts."""
        execution_id, claimed_ms = self._pieces.execution(asked.caller, asked.named["key"])
        return self._verdicts.of_execution(asked.caller, execution_id, claimed_ms, asked.request.query)

    def evidence(self, asked: Asked) -> Response:
        """The answer of GET /ops/pieces/{key}/evidence/{digest}: bytes as they were stored."""
        found = self._pieces.evidence(asked.caller, asked.named["key"], asked.named["digest"])
        return Response(200, found.data, {"Content-Type": found.mime, **BYTES}, is_binary=True)

    def tasks(self, asked: Asked) -> Json:
        """The answer of GET /ops/tasks."""
        return self._tasks.tasks(asked.caller, asked.request.query)

    def task(self, asked: Asked) -> Json:
        """The answer of GET /ops/tasks/{contract_id}."""
        return self._tasks.task(asked.caller, asked.named["contract_id"])

    def contracts(self, asked: Asked) -> Json:
        """The answer of GET /ops/contracts."""
        return self._tasks.contracts(asked.caller, asked.request.query)

    def ledger(self, asked: Asked) -> Json:
        """The answer of GET /ops/ledger."""
        return self._tasks.ledger(asked.caller, asked.request.query)

    def find(self, asked: Asked) -> Json:
        """The answer of GET /ops/find."""
        return self._finder.find(asked.caller, asked.request.query)

    def records(self, asked: Asked) -> Json:
        """The answer of GET /ops/records."""
        return self._records.page(asked.caller, asked.request.query)

    def resend(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/webhooks/{event_id}/resend."""
        named, body = asked.named, asked.request.json_object()
        return self._verbs.resend(asked.caller, named["contract_id"], named["event_id"], body)

    def resend_notice(self, asked: Asked) -> Json:
        """The answer of POST /ops/approvals/{execution_id}/webhooks/{event_id}/resend."""
        named, body = asked.named, asked.request.json_object()
        return self._verbs.resend_notice(asked.caller, named["execution_id"], named["event_id"], body)

    def look(self, asked: Asked) -> Json:
        """The answer of POST /ops/dead-letters/{name}/look."""
        return self._verbs.look(asked.caller, asked.named["name"], asked.request.json_object())

    def redrive(self, asked: Asked) -> Json:
        """The answer of POST /ops/dead-letters/{name}/redrive."""
        return self._verbs.redrive(asked.caller, asked.named["name"], asked.request.json_object())

    def pauses(self, asked: Asked) -> Json:
        """The answer of GET /ops/pauses."""
        return self._pausing.listed(asked.caller)

    def pause(self, asked: Asked) -> Json:
        """The answer of POST /ops/pause."""
        return self._pausing.pause(asked.caller, asked.request.json_object())

    def resume(self, asked: Asked) -> Json:
        """The answer of POST /ops/resume."""
        return self._pausing.resume(asked.caller, asked.request.json_object())

    def forget_piece(self, asked: Asked) -> Json:
        """The answer of POST /ops/pieces/{key}/forget."""
        return self._forgets.piece(asked.caller, asked.named["key"], asked.request.json_object())

    def forget_task(self, asked: Asked) -> Json:
        """The answer of POST /ops/tasks/{contract_id}/forget."""
        return self._forgets.task(asked.caller, asked.named["contract_id"], asked.request.json_object())

    @cached_property
    def _people(self) -> SignIn | None:
        if not self._env.get(ISSUER):
            return None
        from piecework.ops.people.configured import sign_in
        from piecework.ops.store.parameters import ParameterStore

        return sign_in(self._env, ParameterStore(lambda: self._clients.ssm).text, self.telemetry.warning)

    @property
    def _is_local(self) -> bool:
        """Whether AWS is an emulator, which speaks plain HTTP."""
        return self._env.get("AWS_ENDPOINT_URL", "").startswith("http://")

    def _tokens(self) -> Tokens:
        """The tokens as they are now: from the environment on a local machine, from the secret on Lambda.

        Raises:
            SettingsError: they are not a list of name=secret; an emptied secret closes the door.
            Unavailable: the secret is out of reach.
        """
        local, arn = self._env.get(TOKENS, ""), self._env.get(f"{TOKENS}_SECRET_ARN", "")
        if local or not arn:
            return self._warned.of(parse_tokens(local))
        from piecework.aws.secrets import secret_text

        found = parse_tokens(secret_text(arn))
        if not found:
            raise SettingsError("the tokens secret does not hold a name=secret entry")
        return self._warned.of(found)

    @cached_property
    def _warned(self) -> Warned:
        return Warned(lambda: self.telemetry.warning)

    @cached_property
    def _pieces(self) -> PieceViews:
        from piecework.aws.bucket import EvidenceBucket, OverflowBucket
        from piecework.clock import now_in_ms
        from piecework.ops.pieces import PieceViews
        from piecework.ops.store.piece_rows import PieceRowsTable

        table, bucket = needed(self._env, "PIECEWORK_TABLE", "PIECEWORK_BUCKET")
        rows = PieceRowsTable(self._clients.dynamodb, table)
        texts = OverflowBucket(lambda: self._clients.s3, bucket)
        return PieceViews(rows, texts, EvidenceBucket(lambda: self._clients.s3, bucket), now_in_ms)

    @cached_property
    def _verdicts(self) -> Verdicts:
        from piecework.clock import now_in_ms
        from piecework.ops.store.verdict_lines import VerdictLines
        from piecework.ops.verdicts import Verdicts

        group, level = self._env.get("PIECEWORK_VERIFY_LOG_GROUP", ""), self._env.get("POWERTOOLS_LOG_LEVEL", "INFO")
        if not group:
            raise NotFound("this stack has no runtime door")
        (kept,) = needed(self._env, "PIECEWORK_LOG_RETENTION_DAYS")
        lines = VerdictLines(lambda: self._clients.logs, group)
        return Verdicts(lines, now_in_ms, kept_days=int(kept), is_logged=level.upper() in ("DEBUG", "INFO"))

    @cached_property
    def _tasks(self) -> TaskViews:
        from piecework.clock import now_in_ms
        from piecework.ops.store.worker_rows import WorkerRowsTable
        from piecework.ops.tasks import TaskViews

        names = [self._env.get(name, "") for name in ("PIECEWORK_WORK_TABLE", "PIECEWORK_CONTRACTS_TABLE")]
        if not all(names):
            raise NotFound("this stack has no worker door")
        since = self._env.get("PIECEWORK_LEDGER_COMPLETE_FROM", "")
        return TaskViews(WorkerRowsTable(self._clients.dynamodb, *names), now_in_ms, since)

    @cached_property
    def _finder(self) -> Finder:
        from piecework.clock import now_in_ms
        from piecework.ops.finding.finder import Finder
        from piecework.ops.store.piece_rows import PieceRowsTable
        from piecework.ops.store.record_rows import RecordRowsTable
        from piecework.ops.store.worker_rows import WorkerRowsTable

        (table,) = needed(self._env, "PIECEWORK_TABLE")
        names = [self._env.get(name, "") for name in ("PIECEWORK_WORK_TABLE", "PIECEWORK_CONTRACTS_TABLE")]
        tasks = WorkerRowsTable(self._clients.dynamodb, *names) if all(names) else None
        pieces, records = PieceRowsTable(self._clients.dynamodb, table), RecordRowsTable(self._clients.dynamodb, table)
        return Finder(pieces, records, tasks, now_in_ms)

    @cached_property
    def _records(self) -> Records:
        from secrets import token_hex

        from piecework.clock import now_in_ms
        from piecework.ops.records import Records
        from piecework.ops.store.record_rows import RecordRowsTable

        (table,) = needed(self._env, "PIECEWORK_TABLE")
        return Records(RecordRowsTable(self._clients.dynamodb, table), now_in_ms, lambda: token_hex(16))

    @cached_property
    def _pausing(self) -> Pausing:
        from piecework.aws.rows.pauses import PausesRow
        from piecework.clock import now_in_ms
        from piecework.ops.pausing import Pausing

        (table,) = needed(self._env, "PIECEWORK_TABLE")
        return Pausing(self._records, PausesRow(self._clients.dynamodb, table), now_in_ms)

    @cached_property
    def _verbs(self) -> Verbs:
        from piecework.ops.store.letters import LettersQueue
        from piecework.ops.verbs import Verbs

        letters = {name: LettersQueue(lambda: self._clients.sqs, *urls) for name, urls in self._urls.items()}
        return Verbs(self._records, letters, lambda: self._hooks, lambda: self._notices)

    @cached_property
    def _hooks(self) -> Hooks:
        from piecework.ops.store.letters import kept_hooks
        from piecework.webhooks.store import work_deliveries
        from piecework.worker.webhook.webhooks import OWNER

        names = [self._env.get(name, "") for name in ("PIECEWORK_WORK_TABLE", "PIECEWORK_WEBHOOK_QUEUE_URL")]
        if not all(names):
            raise NotFound("this stack has no worker door")
        return kept_hooks(work_deliveries(self._clients.dynamodb, names[0]), lambda: self._clients.sqs, names[1], OWNER)

    @cached_property
    def _notices(self) -> Hooks:
        from piecework.kernel.model.notices import OWNER
        from piecework.ops.store.letters import kept_hooks
        from piecework.webhooks.store import kernel_deliveries

        names = [self._env.get(name, "") for name in ("PIECEWORK_KERNEL_TABLE", "PIECEWORK_KERNEL_WEBHOOKS_QUEUE_URL")]
        if not all(names):
            raise NotFound("this stack has no kernel door")
        return kept_hooks(
            kernel_deliveries(self._clients.dynamodb, names[0]), lambda: self._clients.sqs, names[1], OWNER
        )

    @cached_property
    def _forgets(self) -> Forgets:
        from piecework.ops.store.forgets import forgets_of

        table, bucket = needed(self._env, "PIECEWORK_TABLE", "PIECEWORK_BUCKET")
        work, contracts = (self._env.get(name, "") for name in ("PIECEWORK_WORK_TABLE", "PIECEWORK_CONTRACTS_TABLE"))
        return forgets_of(self._records, self._clients, table, bucket, work, contracts)

    @cached_property
    def _status(self) -> Status:
        from piecework.clock import now_in_ms
        from piecework.ops.ages import Ages
        from piecework.ops.status import Status
        from piecework.ops.store.queue_ages import QueueAges

        ages = Ages(QueueAges(lambda: self._clients.cloudwatch, self._urls, now_in_ms), now_in_ms)
        return Status(self._env.get("PIECEWORK_OPS_DOORS", ""), self._env, self._queues, ages, self._standing)

    @cached_property
    def _standing(self) -> Standing:
        from piecework.aws.rows.pauses import PausesRow
        from piecework.clock import now_in_ms
        from piecework.ops.standing import Oldest, Standing
        from piecework.ops.store.standing_rows import DoubtRows, KernelRows

        (results,) = needed(self._env, "PIECEWORK_TABLE")
        work, due, kernel = (self._env.get(f"PIECEWORK_{name}_TABLE", "") for name in ("WORK", "DUE", "KERNEL"))
        oldest: dict[str, Callable[[], Oldest | None]] = {}
        if work and due:
            oldest["doubt"] = DoubtRows(self._clients.dynamodb, work, due).oldest
        rows = KernelRows(self._clients.dynamodb, kernel) if kernel else None
        if rows:
            oldest["approval"] = rows.oldest_approval
        paused = PausesRow(self._clients.dynamodb, results)
        return Standing(paused.all, rows.paused_agents if rows else list, oldest, now_in_ms)

    @cached_property
    def _queues(self) -> dict[str, Watched]:
        from piecework.aws.queues import Queue
        from piecework.ops.status import Watched

        def queue(url: str) -> Queue:
            return Queue(lambda: self._clients.sqs, url)

        return {name: Watched(*map(queue, urls)) for name, urls in self._urls.items()}

    @cached_property
    def _urls(self) -> dict[str, tuple[str, str]]:
        """Of each queue that is deployed: its own address, and that of its dead letters."""
        from piecework.ops.status import QUEUES

        pairs = {
            name: (self._env.get(f"{begin}_QUEUE_URL", ""), self._env.get(f"{begin}_DEAD_LETTERS_QUEUE_URL", ""))
            for name, begin in QUEUES.items()
        }
        return {name: urls for name, urls in pairs.items() if all(urls)}

    @cached_property
    def _clients(self) -> Clients:
        from piecework.aws.chosen import clients_of

        return clients_of(self._env)
