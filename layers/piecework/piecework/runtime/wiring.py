"""The composition root: the runtime door's parts, made from the process environment when they are first used.

A function asks for the parts that it uses, so it does not import or open the others; tests put fakes in their place.
Unique values (ids, tokens, times) are not made here, so an environment may be restored from a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import SettingsError
from piecework.extend.manifest import Bundle, Manifest, load
from piecework.jsons import Json, canonical
from piecework.settings import Parts, RuntimeSettings, needed

if TYPE_CHECKING:
    from piecework.aws.bucket import EvidenceBucket
    from piecework.aws.clients import Clients
    from piecework.aws.steps_table import StepsTable
    from piecework.durable.pauses import Admission
    from piecework.durable.pieces import PieceTable
    from piecework.edge.http import Request
    from piecework.extend.event_hook import EventHook
    from piecework.extend.policies import Policy
    from piecework.net.fetching import Fetcher
    from piecework.runtime.events.flow import AgentEvents, HookedEvents
    from piecework.runtime.execute.flow import Execute
    from piecework.runtime.verify.fetch import EvidenceCheck
    from piecework.runtime.verify.flow import CheckEvidence, Findings, StatedVerdict, VerifyRequest

Tokens = tuple[tuple[str, str], ...]

DAY_SECONDS: Final = 86_400


class RuntimeDoor(Parts):
    """The runtime door. A part whose setting is missing or cannot be read raises SettingsError."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env

    @cached_property
    def settings(self) -> RuntimeSettings:
        return RuntimeSettings.from_env(self._env)

    @cached_property
    def telemetry(self) -> LambdaTelemetry:
        return LambdaTelemetry(self._env)

    @cached_property
    def clock(self) -> Callable[[], int]:
        from piecework.clock import now_in_ms

        return now_in_ms

    @cached_property
    def bundle(self) -> Bundle:
        """The registered executors, and the default one among them."""
        return Bundle(self._manifest, self.settings.default_executor, self.settings.strict_task_types)

    @cached_property
    def capabilities(self) -> bytes:
        """The body of GET /capabilities."""
        described = {
            "task_types": self.bundle.task_types,
            "profiles": self.bundle.profiles,
            "provider_family": self.settings.provider_family,
            "model_id": self.settings.model_id,
        }
        return canonical(described)

    @cached_property
    def health(self) -> bytes:
        """The body of GET /health."""
        broken = sorted(broken.module.rpartition(".")[2] for broken in self._manifest.broken)
        return canonical({"status": "ok", **({"broken_executors": broken} if broken else {})})

    @cached_property
    def execute(self) -> Execute:
        """The flow of POST /execute."""
        from piecework.aws.bucket import OverflowBucket
        from piecework.durable.pieces import Pieces
        from piecework.runtime.execute.flow import Execute

        _, bucket = needed(self._env, "PIECEWORK_TABLE", "PIECEWORK_BUCKET")
        texts = OverflowBucket(lambda: self._clients.s3, bucket, keep_days=self._keep_days)
        return Execute(
            bundle=self.bundle,
            pieces=Pieces(self._table, texts, ttl_seconds=self.settings.result_ttl_seconds),
            steps=self._steps,
            evidence=self.evidence,
            producer=self.settings.provider_family,
            clock=self.clock,
            expires_at=self._expires_at,
            log=self.telemetry,
            admit=partial(self._admission.check, "runtime"),
        )

    @cached_property
    def events(self) -> AgentEvents:
        """The flow of POST /agent-events; without hooks an AWS client is not made."""
        from piecework.runtime.events.flow import AgentEvents

        return AgentEvents(clock=self.clock, hooked=self._hooked_events if self.hooks else None)

    @cached_property
    def hooks(self) -> dict[str, EventHook]:
        """The registered hooks by event type; imports the modules that hold them."""
        modules = self._manifest.event_hooks
        if not modules:
            return {}
        from piecework.extend.event_hook import registered

        _import_all(modules.values())
        return {event_type: registered()[event_type] for event_type in modules}

    @cached_property
    def policies(self) -> list[Policy]:
        """The registered policies; imports the modules that hold them."""
        modules = self._manifest.policies
        if not modules:
            return []
        from piecework.extend.policies import registered

        _import_all(modules.values())
        return [registered()[policy_id] for policy_id in modules]

    @cached_property
    def judge(self) -> Callable[[VerifyRequest, str], StatedVerdict]:
        """The flow of POST /verify: a request and our own public URL to the verdict."""
        from piecework.runtime.verify.flow import Identity, verify
        from piecework.runtime.verify.policies import BindingRules

        settings = self.settings
        rules = BindingRules.of(settings.policy_hash_mode, settings.extra_policy_hashes, self.policies)
        identity = Identity(settings.provider_family, settings.model_id)
        empty = settings.empty_reason_codes_on_pass

        def judge(request: VerifyRequest, public_url: str) -> StatedVerdict:
            check = self._checking(public_url)
            return verify(request, rules, identity, check, empty_reason_codes_on_pass=empty)

        return judge

    @cached_property
    def evidence(self) -> EvidenceBucket:
        """The evidence store; the S3 client is made at the first use."""
        from piecework.aws.bucket import EvidenceBucket

        (bucket,) = needed(self._env, "PIECEWORK_BUCKET")
        return EvidenceBucket(lambda: self._clients.s3, bucket, keep_days=self._keep_days)

    @cached_property
    def fetcher(self) -> Fetcher:
        """The fetcher of evidence from addresses that strangers name."""
        from piecework.net.fetching import Fetcher

        return Fetcher(warn=self.telemetry.warning)

    @cached_property
    def tokens(self) -> Callable[[], Tokens]:
        """The current tokens: from the secret, else from the environment; without any token the door is open."""
        from piecework.edge.tokens import Warned, parse_tokens

        arn, local = self._env.get("PIECEWORK_RUNTIME_TOKENS_SECRET_ARN"), self._env.get("PIECEWORK_RUNTIME_TOKENS", "")
        if not arn and not parse_tokens(local):
            self.telemetry.warning(
                "door_is_open", advice="tokens are not configured: everybody who can reach this door may use it"
            )
        warned = Warned(lambda: self.telemetry.warning)
        if arn:
            return lambda: warned.of(_tokens_of(arn))
        found = warned.of(parse_tokens(local))
        return lambda: found

    def public_url(self, request: Request) -> str:
        """The door's own base URL: from the parameter, else from the API's id and stage as API Gateway states them."""
        if self.settings.public_url:
            return self.settings.public_url
        region, suffix = self._env.get("AWS_REGION", ""), self._env.get("PIECEWORK_URL_SUFFIX", "amazonaws.com")
        api, stage = request.context.get("apiId", ""), request.context.get("stage", "")
        return f"https://{api}.execute-api.{region}.{suffix}/{stage}"

    @cached_property
    def _manifest(self) -> Manifest:
        return load(self.settings.executors_path)

    @cached_property
    def _clients(self) -> Clients:
        from piecework.aws.chosen import clients_of

        return clients_of(self._env)

    @cached_property
    def _table(self) -> PieceTable:
        from piecework.aws.pieces_table import PiecesTable

        (name,) = needed(self._env, "PIECEWORK_TABLE")
        return PiecesTable(self._clients.dynamodb, name)

    @cached_property
    def _steps(self) -> StepsTable:
        from piecework.aws.steps_table import result_steps

        (name,) = needed(self._env, "PIECEWORK_TABLE")
        return result_steps(self._clients.dynamodb, name)

    @cached_property
    def _admission(self) -> Admission:
        from piecework.aws.rows.pauses import PausesRow
        from piecework.durable.pauses import Admission

        (name,) = needed(self._env, "PIECEWORK_TABLE")
        return Admission(PausesRow(self._clients.dynamodb, name), self.clock, self.telemetry.warning)

    @property
    def _keep_days(self) -> int:
        return -(-self.settings.result_ttl_seconds // DAY_SECONDS)

    def _expires_at(self) -> int:
        return self.clock() // 1000 + self.settings.result_ttl_seconds

    @cached_property
    def _hooked_events(self) -> HookedEvents:
        from piecework.durable.pieces import Pieces
        from piecework.runtime.events.flow import HookedEvents, NoOverflow

        return HookedEvents(
            self.hooks,
            pieces=Pieces(self._table, NoOverflow(), ttl_seconds=self.settings.result_ttl_seconds),
            steps=self._steps,
            clock=self.clock,
            expires_at=self._expires_at,
            log=self.telemetry,
        )

    def _checking(self, public_url: str) -> CheckEvidence:
        """The check of a candidate's references; its imports happen with the first reference."""
        from piecework.runtime.verify.flow import no_evidence_check

        def look(references: Sequence[Mapping[str, Json]]) -> Findings:
            return self._evidence_check.under(public_url)(references)

        return no_evidence_check if self.settings.fetch_evidence == "off" else look

    @cached_property
    def _evidence_check(self) -> EvidenceCheck:
        from piecework.runtime.verify.fetch import EvidenceCheck, FetchEvidence

        mode = FetchEvidence(self.settings.fetch_evidence)
        self._clients.s3  # noqa: B018  # made here: references are read by several threads
        get = self.fetcher.get if mode == "all" else None
        return EvidenceCheck(mode, self.evidence, get)


def _import_all(modules: Iterable[str]) -> None:
    for module in set(modules):
        import_module(module)


def _tokens_of(arn: str) -> Tokens:
    from piecework.aws.secrets import secret_text
    from piecework.edge.tokens import parse_tokens

    found = parse_tokens(secret_text(arn))
    if not found:  # an emptied secret must close the door, not open it
        raise SettingsError("the tokens secret does not hold a name=secret entry")
    return found
