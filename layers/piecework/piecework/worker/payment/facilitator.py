"""The x402 facilitator: verifies and settles what a payer signed (worker specification 2.5).

    facilitator: Facilitator = HttpFacilitator(url, authenticate)
    facilitator.supported() -> Kinds                     # raises PAYMENT_PROVIDER_UNAVAILABLE
    facilitator.verify(payment, terms) -> Verdict        # raises PAYMENT_PROVIDER_UNAVAILABLE
    facilitator.settle(payment, terms, seconds) -> Answer | NotSent | Interrupted       # never raises: see settlement
    SupportedKinds(facilitator).check(network, version)  # cached for an hour; raises PAYMENT_PROVIDER_UNAVAILABLE

`paymentRequirements` is always our own entry, never the client's, and so is the payload's `resource`, which nobody
signs; `accepted` was compared with ours before. A readable `isValid` or `success` counts whatever the HTTP status: the
CDP facilitator refuses with 400 and reports a pending settlement with 500. What it says of its own trouble
(`unexpected_…`, or an unknown reason beside a status of 500) is not a verdict.
"""

import ssl
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic
from typing import Final, Protocol

from piecework.jsons import Json
from piecework.reasons import Warn, silent, tell
from piecework.values import dataclass
from piecework.worker.chain.exchange import Answer, Endpoint, Interrupted, NotSent
from piecework.worker.chain.networks import Network
from piecework.worker.errors import WorkerError
from piecework.worker.payment.payments import Payment
from piecework.worker.payment.reasons import is_verdict, read_reason
from piecework.worker.payment.terms import SCHEME, PaymentTerms

TO: Final = "facilitator"  # its name in the log
VERIFY_SECONDS: Final = 8.0
SETTLE_SECONDS_QUEUED: Final = 20.0
SETTLE_SECONDS_INLINE: Final = 10.0
SUPPORTED_SECONDS: Final = 5.0
KINDS_LIFE_SECONDS: Final = 3_600.0
RETRY_AFTER: Final[Mapping[str, str]] = {"Retry-After": "5"}
PAYER_MISMATCH: Final = "payer_mismatch"

Settled = Answer | NotSent | Interrupted
Authenticate = Callable[[str, str], Mapping[str, str]]  # (method, URL) -> headers; raises CredentialsMissing


class CredentialsMissing(Exception):
    """The facilitator's credentials cannot be had or read, so nothing can be sent to it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `/verify` says; `payer_differs` is worth an alarm: the facilitator read another payer than we did."""

    is_valid: bool
    reason: str | None = None
    payer_differs: bool = False


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which (version, scheme, network) a facilitator settles."""

    served: frozenset[tuple[int, str, str]]

    def serves(self, network: Network, version: int = 2) -> bool:
        """Whether payments of this version on this chain can be settled."""
        return (version, SCHEME, network_name(network, version)) in self.served


class Facilitator(Protocol):
    """Checks and executes signed transfers."""

    def supported(self) -> Kinds:
        """Raises WorkerError PAYMENT_PROVIDER_UNAVAILABLE."""
        ...

    def verify(self, payment: Payment, terms: PaymentTerms) -> Verdict:
        """Raises WorkerError PAYMENT_PROVIDER_UNAVAILABLE."""
        ...

    def settle(self, payment: Payment, terms: PaymentTerms, seconds: float) -> Settled:
        """Ask for settlement, once; `settlement.classify` reads the answer."""
        ...


class HttpFacilitator:
    """A facilitator behind HTTP; keeps no connection, because a thawed environment would find it dead."""

    def __init__(
        self,
        url: str,
        authenticate: Authenticate = lambda method, url: {},
        *,
        verify_seconds: float = VERIFY_SECONDS,
        tls: ssl.SSLContext | None = None,
        warn: Warn = silent,
    ) -> None:
        self._warn = warn
        self._endpoint = Endpoint(url, tls=tls, to=TO, warn=warn)
        self._authenticate = authenticate
        self._verify_seconds = verify_seconds

    def supported(self) -> Kinds:
        """Raises as `Facilitator.supported`."""
        answer = self._send("GET", "/supported", None, SUPPORTED_SECONDS)
        kinds = answer.document.get("kinds") if isinstance(answer, Answer) and answer.document else None
        if not isinstance(kinds, list):
            raise self._trouble("supported", answer)
        return Kinds(frozenset(_kind(kind) for kind in kinds if isinstance(kind, dict)))

    def verify(self, payment: Payment, terms: PaymentTerms) -> Verdict:
        """Raises as `Facilitator.verify`."""
        answer = self._send("POST", "/verify", _question(payment, terms), self._verify_seconds)
        verdict = read_verdict(answer, payment) if isinstance(answer, Answer) else None
        if verdict is None:
            raise self._trouble("verify", answer)
        return verdict

    def settle(self, payment: Payment, terms: PaymentTerms, seconds: float) -> Settled:
        """As `Facilitator.settle`."""
        return self._send("POST", "/settle", _question(payment, terms), seconds)

    def _trouble(self, call: str, heard: Settled) -> WorkerError:
        """What the seeker reads when the facilitator gave no verdict. A failed call is in the log already."""
        if isinstance(heard, Answer) and heard.status < 300:
            tell(self._warn, TO, status=heard.status, reason=f"no_verdict_in_{call}")
        return unavailable(_told(heard))

    def _send(self, method: str, path: str, body: Json, seconds: float) -> Settled:
        try:
            headers = self._authenticate(method, self._endpoint.url + path)
        except CredentialsMissing:
            tell(self._warn, TO, reason="CredentialsMissing", sent=False)
            return NotSent("CredentialsMissing")
        return self._endpoint.exchange(method, path, body, headers, seconds)


class SupportedKinds:
    """What the facilitator settles, asked at most once an hour per environment."""

    def __init__(
        self,
        facilitator: Facilitator,
        clock: Callable[[], float] = monotonic,
        *,
        sees: Callable[[Network], bool] = lambda network: True,
    ) -> None:
        self._facilitator = facilitator
        self._sees = sees
        self._clock = clock
        self._lock = Lock()
        self._known: tuple[float, Kinds] | None = None

    def check(self, network: Network, version: int = 2) -> None:
        """Pass if payments on this chain can be settled, and seen where they are real money; else never ask for one.

        Raises:
            WorkerError: PAYMENT_PROVIDER_UNAVAILABLE.
        """
        if not (network.is_testnet or self._sees(network)):
            raise unavailable(f"the worker cannot see the chain of {network.name} now; nothing was charged, try again")
        if not self._kinds().serves(network, version):
            self._known = None  # an operator's repair is seen at the next request
            raise unavailable("the payment provider does not settle on this network")

    def serves(self, network: Network, version: int) -> bool:
        """Whether payments of this version can be settled.

        Raises:
            WorkerError: PAYMENT_PROVIDER_UNAVAILABLE; that cannot be found out.
        """
        return self._kinds().serves(network, version)

    def _kinds(self) -> Kinds:
        with self._lock:
            now = self._clock()
            if self._known is None or now - self._known[0] > KINDS_LIFE_SECONDS:
                self._known = (now, self._facilitator.supported())
            return self._known[1]


def read_verdict(answer: Answer, payment: Payment) -> Verdict | None:
    """The verdict in an answer of `/verify`, or None when it has none."""
    document = answer.document or {}
    is_valid, reason = document.get("isValid"), read_reason(document.get("invalidReason"))
    if not isinstance(is_valid, bool):
        return None
    if not is_valid:
        return Verdict(is_valid=False, reason=reason) if is_verdict(reason, answer.status) else None
    if payer_differs(document.get("payer"), payment):
        return Verdict(is_valid=False, reason=PAYER_MISMATCH, payer_differs=True)
    return Verdict(is_valid=True)


def payer_differs(payer: Json, payment: Payment) -> bool:
    """Whether an answer names another payer than the one who signed."""
    return bool(payer) and str(payer).lower() != payment.authorization.from_.lower()


def network_name(network: Network, version: int) -> str:
    """A chain's name in the words of an x402 version."""
    return network.caip2 if version == 2 else network.name


def unavailable(message: str = "the payment provider cannot be reached; nothing was charged, try again") -> WorkerError:
    """The answer while no payment can be checked."""
    return WorkerError("PAYMENT_PROVIDER_UNAVAILABLE", message, headers=RETRY_AFTER)


def _told(heard: Settled) -> str:
    """What the seeker reads: whether the provider could be reached, and whether it refused."""
    if not isinstance(heard, Answer):
        return "the payment provider cannot be reached; nothing was charged, try again"
    if 400 <= heard.status < 500:
        return "the payment provider refused the request; nothing was charged, try again later"
    return "the payment provider cannot be reached or gave no verdict; nothing was charged, try again"


def _question(payment: Payment, terms: PaymentTerms) -> dict[str, Json]:
    ours = {"resource": terms.resource} if payment.version == 2 else {}
    return {
        "x402Version": payment.version,
        "paymentPayload": payment.document | ours,
        "paymentRequirements": terms.entry(payment.version),
    }


def _kind(kind: Mapping[str, Json]) -> tuple[int, str, str]:
    version = kind.get("x402Version")
    return (version if isinstance(version, int) else 0, str(kind.get("scheme")), str(kind.get("network")))
