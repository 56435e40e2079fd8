"""The composition root: builds what each function needs, once per warm environment, from the process environment.

Each function has its own wiring so that it imports and opens only what it uses; tests build the same parts with fakes.
Nothing unique (ids, tokens, times) is made here, so an environment may be restored from a snapshot. A wiring is a
NamedTuple because every cold start makes the classes anew, and a dataclass takes four times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from piecework.aws.telemetry import LambdaTelemetry
from piecework.errors import SettingsError
from piecework.extend.manifest import Bundle, load
from piecework.jsons import Json, canonical
from piecework.settings import Reader, RuntimeSettings

if TYPE_CHECKING:
    from piecework.durable.artifacts import EvidenceStore
    from piecework.edge.http import Request
    from piecework.extend.event_hook import EventHook
    from piecework.extend.policies import Policy
    from piecework.reasons import Warn
    from piecework.runtime.events.flow import AgentEvents, HookedEvents
    from piecework.runtime.execute.flow import Execute
    from piecework.runtime.verify.fetch import EvidenceCheck, Get
    from piecework.runtime.verify.flow import CheckEvidence, StatedVerdict
    from piecework.runtime.verify.messages import VerifyRequest

DAY_SECONDS: Final = 86_400


class CapabilitiesWiring(NamedTuple):
    """What `/capabilities` and `/health` need: their bytes."""

    capabilities: bytes
    health: bytes
    telemetry: LambdaTelemetry


class ExecuteWiring(NamedTuple):
    """What `/execute` needs."""

    execute: Execute
    public_url: Callable[[Request], str]
    clock: Callable[[], int]
    telemetry: LambdaTelemetry
    edge_ms: int = 29_000  # when the edge gives up a connection


class VerifyWiring(NamedTuple):
    """What `/verify` needs."""

    verify: Callable[[VerifyRequest, str], StatedVerdict]  # with our own public URL
    public_url: Callable[[Request], str]
    telemetry: LambdaTelemetry


class AgentEventsWiring(NamedTuple):
    """What `/agent-events` needs."""

    events: AgentEvents
    clock: Callable[[], int]
    telemetry: LambdaTelemetry


class ArtifactsWiring(NamedTuple):
    """What `/artifacts` needs."""

    evidence: EvidenceStore
    telemetry: LambdaTelemetry


class AuthorizerWiring(NamedTuple):
    """What the authorizer needs: the tokens as they are now."""

    tokens: Callable[[], tuple[tuple[str, str], ...]]


def capabilities_wiring() -> CapabilitiesWiring:
    """Raises SettingsError when a setting has no meaning or the default executor is not registered."""
    settings = RuntimeSettings.from_env(os.environ)
    bundle = _bundle(settings)
    described = {
        "task_types": bundle.task_types,
        "profiles": bundle.profiles,
        "provider_family": settings.provider_family,
        "model_id": settings.model_id,
    }
    broken = sorted(broken.module.rpartition(".")[2] for broken in bundle.manifest.broken)
    alive = {"status": "ok", **({"broken_executors": broken} if broken else {})}
    return CapabilitiesWiring(canonical(described), canonical(alive), LambdaTelemetry(os.environ))


def execute_wiring() -> ExecuteWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.aws.bucket import EvidenceBucket, OverflowBucket
    from piecework.aws.clients import Clients
    from piecework.aws.pieces_table import PiecesTable
    from piecework.durable.pieces import Pieces, now_in_ms
    from piecework.runtime.execute.flow import Execute

    settings = RuntimeSettings.from_env(os.environ)
    table_name, bucket_name = _needed("PIECEWORK_TABLE", "PIECEWORK_BUCKET")
    clients, telemetry = Clients(os.environ.get("AWS_ENDPOINT_URL")), LambdaTelemetry(os.environ)
    table = PiecesTable(clients.dynamodb, table_name)
    days = -(-settings.result_ttl_seconds // DAY_SECONDS)
    texts = OverflowBucket(lambda: clients.s3, bucket_name, keep_days=days)
    pieces = Pieces(table, texts, ttl_seconds=settings.result_ttl_seconds)
    execute = Execute(
        bundle=_bundle(settings),
        pieces=pieces,
        steps=table,
        evidence=EvidenceBucket(lambda: clients.s3, bucket_name, keep_days=days),
        producer=settings.provider_family,
        clock=now_in_ms,
        expires_at=lambda: now_in_ms() // 1000 + settings.result_ttl_seconds,
        log=telemetry,
    )
    return ExecuteWiring(execute, _public_url(settings), now_in_ms, telemetry, settings.execute_timeout_ms)


def verify_wiring() -> VerifyWiring:
    """Raises SettingsError when a setting has no meaning or an own policy's id is taken."""
    from piecework.runtime.verify.flow import Identity, verify
    from piecework.runtime.verify.policies import BindingRules

    settings = RuntimeSettings.from_env(os.environ)
    rules = BindingRules.of(settings.policy_hash_mode, settings.extra_policy_hashes, own_policies(settings))
    identity = Identity(settings.provider_family, settings.model_id)
    telemetry = LambdaTelemetry()
    check_evidence = _evidence_check(settings, telemetry.warning)

    def judge(request: VerifyRequest, public_url: str) -> StatedVerdict:
        return verify(
            request,
            rules,
            identity,
            check_evidence(public_url),
            empty_reason_codes_on_pass=settings.empty_reason_codes_on_pass,
        )

    return VerifyWiring(judge, _public_url(settings), telemetry)


def agent_events_wiring() -> AgentEventsWiring:
    """Raises SettingsError when a hook is registered and a setting is missing; without hooks there is no AWS client."""
    from piecework.durable.pieces import now_in_ms
    from piecework.runtime.events.flow import AgentEvents

    settings, telemetry = RuntimeSettings.from_env(os.environ), LambdaTelemetry()
    hooks = event_hooks(settings)
    hooked = _hooked_events(hooks, settings, telemetry) if hooks else None
    return AgentEventsWiring(AgentEvents(clock=now_in_ms, hooked=hooked), now_in_ms, telemetry)


def artifacts_wiring() -> ArtifactsWiring:
    """Raises SettingsError when a setting is missing."""
    from piecework.aws.bucket import EvidenceBucket
    from piecework.aws.clients import Clients

    (bucket_name,) = _needed("PIECEWORK_BUCKET")
    clients = Clients(os.environ.get("AWS_ENDPOINT_URL"))
    return ArtifactsWiring(EvidenceBucket(lambda: clients.s3, bucket_name), LambdaTelemetry(os.environ))


def authorizer_wiring() -> AuthorizerWiring:
    """Tokens from the secret on Lambda, from the environment on a local machine; none at all means an open door."""
    from piecework.edge.tokens import parse_tokens

    arn, local = os.environ.get("PIECEWORK_RUNTIME_TOKENS_SECRET_ARN"), os.environ.get("PIECEWORK_RUNTIME_TOKENS", "")
    if not arn and not parse_tokens(local):
        LambdaTelemetry().warning("door_is_open", advice="no token is configured: anyone who can reach it may use it")

    def tokens() -> tuple[tuple[str, str], ...]:
        if not arn:
            return parse_tokens(local)
        from piecework.aws.secrets import secret_text

        found = parse_tokens(secret_text(arn))
        if not found:  # a secret that was emptied must close the door, not open it
            raise SettingsError("the tokens secret holds no name=secret entry")
        return found

    return AuthorizerWiring(tokens)


def own_policies(settings: RuntimeSettings) -> list[Policy]:
    """The policies that modules of the executors package registered; their modules are imported."""
    modules = load(settings.executors_path).policies
    if not modules:
        return []
    from piecework.extend.policies import registered

    for module in set(modules.values()):
        import_module(module)
    return [registered()[policy_id] for policy_id in modules]


def event_hooks(settings: RuntimeSettings) -> dict[str, EventHook]:
    """The hooks that modules of the executors package registered, by event type; their modules are imported."""
    modules = load(settings.executors_path).event_hooks
    if not modules:
        return {}
    from piecework.extend.event_hook import registered

    for module in set(modules.values()):
        import_module(module)
    return {event_type: registered()[event_type] for event_type in modules}


def _hooked_events(
    hooks: Mapping[str, EventHook], settings: RuntimeSettings, telemetry: LambdaTelemetry
) -> HookedEvents:
    from piecework.aws.clients import Clients
    from piecework.aws.pieces_table import PiecesTable
    from piecework.durable.pieces import Pieces, now_in_ms
    from piecework.runtime.events.flow import HookedEvents, NoOverflow

    (table_name,) = _needed("PIECEWORK_TABLE")
    table = PiecesTable(Clients(os.environ.get("AWS_ENDPOINT_URL")).dynamodb, table_name)
    return HookedEvents(
        hooks,
        pieces=Pieces(table, NoOverflow(), ttl_seconds=settings.result_ttl_seconds),
        steps=table,
        clock=now_in_ms,
        expires_at=lambda: now_in_ms() // 1000 + settings.result_ttl_seconds,
        log=telemetry,
    )


def _evidence_check(settings: RuntimeSettings, warn: Warn) -> Callable[[str], CheckEvidence]:
    """The check of a candidate's references; what it needs is imported with the first reference."""
    from piecework.runtime.verify.flow import Findings, no_evidence_check

    if settings.fetch_evidence == "off":
        return lambda public_url: no_evidence_check

    @cache
    def check() -> EvidenceCheck:
        from piecework.aws.bucket import EvidenceBucket
        from piecework.aws.clients import Clients
        from piecework.runtime.verify.fetch import EvidenceCheck, FetchEvidence

        mode = FetchEvidence(settings.fetch_evidence)
        (bucket_name,) = _needed("PIECEWORK_BUCKET")
        s3 = Clients(os.environ.get("AWS_ENDPOINT_URL")).s3  # made here: references are read by several threads
        return EvidenceCheck(mode, EvidenceBucket(lambda: s3, bucket_name), _get(warn) if mode == "all" else None)

    def checking(public_url: str) -> CheckEvidence:
        def look(references: Sequence[Mapping[str, Json]]) -> Findings:
            return check().under(public_url)(references)

        return look

    return checking


def _get(warn: Warn) -> Get:
    from piecework.net.fetching import Fetcher

    return Fetcher(warn=warn).get


def _bundle(settings: RuntimeSettings) -> Bundle:
    return Bundle(load(settings.executors_path), settings.default_executor, settings.strict_task_types)


def _needed(*names: str) -> list[str]:
    reader = Reader(os.environ)
    values = [reader.needed(name) for name in names]
    reader.finish()
    return values


def _public_url(settings: RuntimeSettings) -> Callable[[Request], str]:
    """The door's own base URL: the parameter, else the API's id and stage as API Gateway itself states them."""
    region, suffix = os.environ.get("AWS_REGION", ""), os.environ.get("PIECEWORK_URL_SUFFIX", "amazonaws.com")

    def public_url(request: Request) -> str:
        if settings.public_url:
            return settings.public_url
        api, stage = request.context.get("apiId", ""), request.context.get("stage", "")
        return f"https://{api}.execute-api.{region}.{suffix}/{stage}"

    return public_url
