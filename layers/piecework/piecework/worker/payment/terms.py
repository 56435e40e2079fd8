"""What a contract costs, and the 402 that says so to x402 clients of both versions (worker specification 2.1, 2.2).

    terms = PaymentTerms.of(contract, max_duration_ms, public_base_url, settle_before=False)
    terms.entry(2)                                      # the v2 (or v1) entry; a facilitator's `paymentRequirements`
    payment_required(terms, code=…, message=…, reason=…, v1=…, members=…) -> Demand(headers, body)
    demand_for(error, terms, v1=…, members=…)           # the same for a WorkerError whose status is 402
    receipt_headers(version, receipt)                   # PAYMENT-RESPONSE, or X-PAYMENT-RESPONSE for version 1

Everything depends on the contract alone: a client sees the same terms in the answer it signs for and in the next one.
Amounts are whole units of the token.
"""

import base64
from collections.abc import Mapping
from typing import Final, Protocol, Self

from piecework.jsons import Json, canonical
from piecework.values import dataclass
from piecework.worker.chain.networks import Network
from piecework.worker.errors import WorkerError

SCHEME: Final = "exact"
CURRENCY: Final = "USDC"
MEDIA_TYPE: Final = "application/json"
DEFAULT_LATENCY_MS: Final = 300_000  # when neither contract nor executor says how long the work may take
SETTLING_SECONDS: Final = 600  # of an authorization's life that are kept for settlement and its repeats
SHORTEST_SECONDS: Final = 600
LONGEST_SECONDS: Final = 86_400  # what clients were seen to honour
STEP_SECONDS: Final = 300
UPFRONT: Final = "upfront"
SPEND_HINT: Final = (
    "stock x402 clients refuse more than 1 USD per payment until told otherwise: raise max_amount_per_payment"
    " (spendControls.maxAmountPerPayment)"
)


class Contract(Protocol):
    """The part of a contract record that payments are about."""

    @property
    def contract_id(self) -> str: ...
    @property
    def seeker_wallet(self) -> str: ...
    @property
    def worker_wallet(self) -> str: ...
    @property
    def network(self) -> Network: ...
    @property
    def price(self) -> str: ...
    @property
    def atomic(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def max_latency_ms(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PaymentTerms:
    """One contract's price, who gets it, and how long an authorization must live."""

    contract_id: str
    network: Network
    pay_to: str
    price: str  # the contract's decimal string
    atomic: int
    latency_ms: int  # L of the specification: the longest that one attempt may take
    max_timeout_seconds: int
    resource_url: str
    settle_before: bool = False

    @classmethod
    def of(
        cls, contract: Contract, max_duration_ms: int | None, public_base_url: str, settle_before: bool = False
    ) -> Self:
        """The terms of a contract that an executor of this longest duration serves."""
        latency_ms = max(contract.max_latency_ms or 0, max_duration_ms or 0) or DEFAULT_LATENCY_MS
        return cls(
            contract_id=contract.contract_id,
            network=contract.network,
            pay_to=contract.worker_wallet,
            price=contract.price,
            atomic=contract.atomic,
            latency_ms=latency_ms,
            max_timeout_seconds=authorization_seconds(contract.attempts, latency_ms),
            resource_url=f"{public_base_url.rstrip('/')}/execute",
            settle_before=settle_before,
        )

    @property
    def description(self) -> str:
        """Says the contract id only: facilitators refuse long descriptions in misleading words."""
        return f"HIRE contract {self.contract_id}"

    @property
    def resource(self) -> dict[str, Json]:
        """What is paid for; a client's copy of it is not signed, so ours goes to the facilitator."""
        return {"url": self.resource_url, "description": self.description, "mimeType": MEDIA_TYPE}

    @property
    def extra(self) -> dict[str, Json]:
        """The token's signing domain, and the order of work and settlement where it is not the usual one."""
        domain: dict[str, Json] = {"name": self.network.eip712_name, "version": self.network.eip712_version}
        return domain | ({"paymentFlow": UPFRONT} if self.settle_before else {})

    def entry(self, version: int) -> dict[str, Json]:
        """Our `accepts` entry in the words of an x402 version; also what a facilitator is told to check against."""
        common: dict[str, Json] = {
            "scheme": SCHEME,
            "asset": self.network.usdc,
            "payTo": self.pay_to,
            "maxTimeoutSeconds": self.max_timeout_seconds,
            "extra": self.extra,
        }
        if version == 2:
            return common | {"network": self.network.caip2, "amount": str(self.atomic)}
        return common | {
            "network": self.network.name,
            "maxAmountRequired": str(self.atomic),
            "resource": self.resource_url,
            "description": self.description,
            "mimeType": MEDIA_TYPE,
            "outputSchema": None,
        }


@dataclass(frozen=True, slots=True)
class Demand:
    """A 402: its headers beside the common ones, and its body."""

    headers: Mapping[str, str]
    body: Mapping[str, Json]


def authorization_seconds(attempts: int, latency_ms: int) -> int:
    """How long an authorization must live to cover every free retry and settlement."""
    seconds = -(-attempts * latency_ms // 1000) + SETTLING_SECONDS
    clamped = min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
    return -(-clamped // STEP_SECONDS) * STEP_SECONDS


def payment_required(
    terms: PaymentTerms,
    *,
    code: str = "PAYMENT_REQUIRED",
    message: str = "payment required",
    reason: str | None = None,
    v1: bool = True,
    members: Mapping[str, Json] | None = None,
) -> Demand:
    """The answer that asks for payment: for v2 clients in a header, for v1 clients and people in the body.

    `members` are further ones of the body, such as `task_id` and `payment` after a failed settlement. A version 1
    client reads `error` as a string; with `v1` off the body is the usual failed one.
    """
    details: dict[str, Json] = {"hint": SPEND_HINT} | ({"reason": reason} if reason else {})
    body: dict[str, Json] = {"status": "failed", "contract_id": terms.contract_id, **(members or {})}
    if v1:
        said = message if reason is None else f"{message}: {reason}"
        body |= {"x402Version": 1, "error": said, "accepts": [terms.entry(1)], "code": code, "details": details}
    else:
        body["error"] = {"code": code, "message": message, "details": details, "retryable": True}
    return Demand(_headers(terms, reason or code), body)


def demand_for(
    error: WorkerError, terms: PaymentTerms, *, v1: bool = True, members: Mapping[str, Json] | None = None
) -> Demand:
    """The 402 that says why a payment was not taken, and asks for another one."""
    reason = error.details.get("reason")
    return payment_required(terms, code=error.code, message=error.message, reason=reason, v1=v1, members=members)


def receipt_headers(version: int, receipt: Mapping[str, Json]) -> dict[str, str]:
    """The settlement's outcome, under the header name of the version that was paid with."""
    return {"PAYMENT-RESPONSE" if version == 2 else "X-PAYMENT-RESPONSE": encoded(receipt)}


def encoded(document: Mapping[str, Json]) -> str:
    """A document as x402 puts it into a header: base64 of JSON, padded, in one line."""
    return base64.b64encode(canonical(dict(document))).decode("ascii")


def _headers(terms: PaymentTerms, error: str) -> dict[str, str]:
    required: dict[str, Json] = {
        "x402Version": 2,
        "error": error,
        "resource": terms.resource,
        "accepts": [terms.entry(2)],
        "extensions": {},
    }
    return {
        "X-Payment-Address": terms.pay_to,
        "X-Payment-Amount": terms.price,
        "X-Payment-Currency": CURRENCY,
        "X-Payment-Network": terms.network.name,
        "PAYMENT-REQUIRED": encoded(required),
    }
