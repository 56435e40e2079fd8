"""The composition root of the kernel door's streams, and of the credentials that the whole door checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from piecework.edge.tokens import parse_tokens
from piecework.errors import SettingsError

if TYPE_CHECKING:
    from piecework.kernel.model.changes import Change
    from piecework.kernel.streams.bells import BellRows
    from piecework.kernel.streams.opening import Streams

TOKENS: Final = "PIECEWORK_KERNEL_TOKENS"
TOKENS_ARN: Final = "PIECEWORK_KERNEL_TOKENS_SECRET_ARN"
ORIGINS: Final = "REBUNO_CORS_ORIGINS"

Tokens = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class KernelStreamsWiring:
    """What the streams function needs."""

    streams: Streams
    bells: BellRows
    tokens: Callable[[], Tokens]
    origins: tuple[str, ...]


def streams_wiring(heard: Callable[[Change], None]) -> KernelStreamsWiring:
    """Raises SettingsError when a setting is missing or has no meaning."""
    from piecework.kernel.streams.feeds import Stores
    from piecework.kernel.streams.opening import Streams
    from piecework.kernel.wiring import kernel_parts

    parts = kernel_parts(heard)
    streams = Streams(
        Stores(parts.executions, parts.agents, parts.runners),
        parts.outbox,
        parts.kernel,
        parts.assigner,
        parts.dispatcher,
        parts.liveness,
        parts.rules,
        parts.clock,
    )
    return KernelStreamsWiring(streams, parts.bells, kernel_tokens, cors_origins(os.environ))


def kernel_tokens() -> Tokens:
    """Tokens from the environment on a local machine, from the secret on Lambda; none, and the door is open.

    Raises:
        SettingsError: they are no list of name=secret; a secret without an entry opens nothing.
        Unavailable: the secret is out of reach.
    """
    local, arn = os.environ.get(TOKENS, ""), os.environ.get(TOKENS_ARN, "")
    if not local and arn:
        from piecework.aws.secrets import secret_text

        local = secret_text(arn)
        if not parse_tokens(local):
            raise SettingsError("the tokens secret holds no name=secret entry")
    return parse_tokens(local)


def cors_origins(env: Mapping[str, str]) -> tuple[str, ...]:
    """The origins whose pages may call; none, and CORS is off."""
    return tuple(filter(None, (origin.strip() for origin in env.get(ORIGINS, "").split(","))))
