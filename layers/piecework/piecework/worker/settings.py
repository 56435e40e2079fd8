"""The worker door's settings (worker specification 9), read once from the environment."""

import re
from collections.abc import Mapping
from typing import Final, Self

from piecework.net.addresses import is_https_or_loopback
from piecework.settings import TRUE, Reader
from piecework.values import dataclass
from piecework.worker.chain.networks import NETWORKS, Network

ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
ORIGIN: Final = re.compile(r"\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
MOST_ATTEMPTS: Final = 10
LONGEST_URL_TTL: Final = 43_200  # seconds; a role's credentials seldom live longer


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Every setting; addresses in lower case, URLs without a trailing slash."""

    public_base_url: str  # empty: API Gateway's own, which requests tell
    worker_wallets: tuple[str, ...]  # as given, so that they can be shown with their checksum
    worker_agent_id: str
    facilitator_url: str = ""
    facilitator_auth: str = ""  # ARN of a secret with a CDP key, or empty
    base_rpc_url: str = ""
    base_rpc_url_secret_arn: str = ""  # of a secret with the node's URL, which stands in no variable on Lambda
    sees_base: bool = False  # a node of Base is configured, here or for the functions that take payment
    allow_testnet: bool = False
    x402_v1: bool = True
    bind_payer: bool = True
    default_attempts: int = 3
    max_body_bytes: int = 262_144
    inline_output_bytes: int = 1_048_576
    url_ttl_seconds: int = 3_600
    result_days: int = 7
    stream_unpaid_output: bool = False
    sse_mode: str = "buffered"
    cors_origin: str = "*"  # whose pages may call this door

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks whose contracts are taken."""
        sight = {"allow_testnet": self.allow_testnet, "sees_base": self.sees_base}
        return tuple(network for network in NETWORKS.values() if served(network, **sight))

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: a setting is missing or has no meaning; the message names every such one.
        """
        reader = Reader(env)
        settings = cls(
            public_base_url=_base_url(reader),
            worker_wallets=_wallets(reader),
            worker_agent_id=_agent_id(reader),
            facilitator_url=reader.text("FACILITATOR_URL", "").rstrip("/"),
            facilitator_auth=reader.text("FACILITATOR_AUTH", ""),
            base_rpc_url=reader.text("BASE_RPC_URL", ""),
            base_rpc_url_secret_arn=reader.text("BASE_RPC_URL_SECRET_ARN", ""),
            sees_base=_sees_base(reader),
            allow_testnet=reader.switch("ALLOW_TESTNET"),
            x402_v1=_is_on(reader, "X402_V1"),
            bind_payer=_is_on(reader, "BIND_PAYER"),
            default_attempts=min(reader.positive("DEFAULT_ATTEMPTS", 3), MOST_ATTEMPTS),
            max_body_bytes=reader.positive("MAX_BODY_BYTES", 262_144),
            inline_output_bytes=reader.positive("INLINE_OUTPUT_BYTES", 1_048_576),
            url_ttl_seconds=min(reader.positive("URL_TTL_SECONDS", 3_600), LONGEST_URL_TTL),
            result_days=reader.positive("RESULT_DAYS", 7),
            stream_unpaid_output=reader.switch("STREAM_UNPAID_OUTPUT"),
            sse_mode=reader.choice("SSE_MODE", ("buffered", "streaming")),
            cors_origin=_origin(reader),
        )
        reader.finish()
        return settings


def served(network: Network, *, allow_testnet: bool, sees_base: bool) -> bool:
    """Whether contracts in a network's money are taken: real money only where its chain can be seen (2.1, as amended).

    A seeker can cancel its authorization after the work began; only the chain tells that from a payment.
    """
    return allow_testnet if network.is_testnet else sees_base


def _base_url(reader: Reader) -> str:
    url = reader.text("PUBLIC_BASE_URL", "").rstrip("/")
    if url and not is_https_or_loopback(url):
        reader.problem("PUBLIC_BASE_URL must be an https URL")
    return url


def _wallets(reader: Reader) -> tuple[str, ...]:
    wallets = tuple(part.strip() for part in reader.needed("WORKER_WALLETS").split(",") if part.strip())
    if not all(ADDRESS.fullmatch(wallet) for wallet in wallets):
        reader.problem("WORKER_WALLETS must be a comma list of 0x addresses")
    return wallets


def _agent_id(reader: Reader) -> str:
    agent_id = reader.needed("WORKER_AGENT_ID")
    if agent_id and not re.fullmatch(r"agent_[a-z0-9]+", agent_id):
        reader.problem("WORKER_AGENT_ID must match agent_[a-z0-9]+")
    return agent_id


def _origin(reader: Reader) -> str:
    origin = reader.text("CORS_ORIGIN", "*")
    if not ORIGIN.fullmatch(origin):
        reader.problem("CORS_ORIGIN must be * or one origin such as https://seeker.example")
    return origin


def _is_on(reader: Reader, name: str) -> bool:
    return reader.text(name, "on").lower() in TRUE


def _sees_base(reader: Reader) -> bool:
    """Whether a node of Base is configured; a function that does not take payments gets this instead of the URL."""
    urls = (reader.text(name, "") for name in ("BASE_RPC_URL", "BASE_RPC_URL_SECRET_ARN"))
    return any(urls) or reader.switch("BASE_CHAIN_SEEN")
