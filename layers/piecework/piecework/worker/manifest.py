"""GET /manifest: who this worker is, what it can be hired for, how it is paid, and its limits, in HIRE's manifest form.

Everything is known from the settings and the bundle's own manifest; no executor is imported to tell.
"""

from collections.abc import Sequence
from typing import Final

from piecework.clock import DAY_MS
from piecework.extend.manifest import Entry
from piecework.jsons import Json
from piecework.worker.answer.deliverables import FILE_LIMIT, MOST_FILES
from piecework.worker.chain.networks import Network
from piecework.worker.contract.contracts import LONGEST_LATENCY_MS, LONGEST_TERM_MS
from piecework.worker.payment.terms import CURRENCY, SCHEME
from piecework.worker.settings import WorkerSettings

PROTOCOL: Final = "HIRE/1.0"


def manifest_of(settings: WorkerSettings, executors: Sequence[Entry], default: str) -> dict[str, Json]:
    """The manifest; `default` is the executor that serves a contract which names none in `task.requirements`."""
    return {
        "version": PROTOCOL,
        "agent_id": settings.worker_agent_id,
        "wallets": list(settings.worker_wallets),
        "endpoint": {"url": settings.public_base_url, "protocol": "https"},
        "capabilities": [_capability(entry, default) for entry in executors],
        "pricing": _pricing(settings, settings.networks),
        "limits": _limits(settings),
    }


def _capability(entry: Entry, default: str) -> dict[str, Json]:
    return {
        "name": entry.name,
        "task_types": list(entry.task_types),
        "profiles": list(entry.profiles),
        "default": entry.name == default,
    }


def _pricing(settings: WorkerSettings, networks: Sequence[Network]) -> dict[str, Json]:
    """Prices are agreed in each contract; this is what any of them must keep to."""
    return {
        "model": "per_contract",
        "currency": CURRENCY,
        "decimals": 6,
        "networks": [{"name": network.name, "caip2": network.caip2, "asset": network.usdc} for network in networks],
        "payment_triggers": ["on_delivery"],
        "x402": {"scheme": SCHEME, "versions": [2, 1] if settings.x402_v1 else [2]},
    }


def _limits(settings: WorkerSettings) -> dict[str, Json]:
    return {
        "max_body_bytes": settings.max_body_bytes,
        "max_inline_output_bytes": settings.inline_output_bytes,
        "max_files": MOST_FILES,
        "max_file_bytes": FILE_LIMIT,
        "max_latency_ms": LONGEST_LATENCY_MS,
        "max_term_days": LONGEST_TERM_MS // DAY_MS,
        "default_attempts": settings.default_attempts,
        "result_days": settings.result_days,
        "url_ttl_seconds": settings.url_ttl_seconds,
    }
