"""Payments for tests: two wallets, a contract's payment side, signed headers, and what a facilitator may answer."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from eth_account import Account
from eth_account.messages import encode_typed_data

from piecework.edge.http import Request
from piecework.jsons import Json
from piecework.worker.chain.exchange import Answer
from piecework.worker.chain.networks import BASE, NETWORKS, Network
from piecework.worker.payment.payments import Authorization, Payment, read_payment
from piecework.worker.payment.terms import PaymentTerms
from tests.support.worker.contracts import SEEKER_KEY
from tests.support.worker.contracts import SEEKER_WALLET as SEEKER
from tests.support.worker.contracts import WORKER_WALLET as WORKER

STRANGER_KEY = "0x" + "33" * 32
NOW_S = 1_767_600_000
NOW_MS = NOW_S * 1000
NONCE = "0x" + "ab" * 32
HASH = "0x" + "8b" * 32
BASE_URL = "https://w.example/hire"

TYPES = {
    "EIP712Domain": [
        {"name": "name", "type": "string"},
        {"name": "version", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ],
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ],
}


@dataclass(frozen=True)
class PricedContract:
    """The payment side of a contract."""

    contract_id: str = "ctr_demo01"
    seeker_wallet: str = SEEKER
    worker_wallet: str = WORKER
    network: Network = BASE
    price: str = "5"
    atomic: int = 5_000_000
    attempts: int = 3
    max_latency_ms: int | None = 60_000


CONTRACT = PricedContract()


def some_terms(contract: PricedContract = CONTRACT, *, settle_before: bool = False) -> PaymentTerms:
    return PaymentTerms.of(contract, None, BASE_URL, settle_before)


def typed_data(authorization: Mapping[str, str], network: Network, **domain: Json) -> dict[str, Json]:
    """The EIP-712 message of an authorization."""
    return {
        "types": TYPES,
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": network.eip712_name,
            "version": network.eip712_version,
            "chainId": network.chain_id,
            "verifyingContract": network.usdc,
            **domain,
        },
        "message": {
            **authorization,
            **{name: int(authorization[name]) for name in ("value", "validAfter", "validBefore")},
        },
    }


def signed_payload(
    terms: PaymentTerms,
    *,
    version: int = 2,
    key: str = SEEKER_KEY,
    now: int = NOW_S,
    domain: Mapping[str, Json] | None = None,
    accepted: Mapping[str, Json] | None = None,
    **changes: str,
) -> dict[str, Json]:
    """A PaymentPayload as a stock client makes it; `changes` are members of the authorization, named as on the wire
    except `from_`."""
    authorization = {
        "from": Account.from_key(key).address,
        "to": terms.pay_to,
        "value": str(terms.atomic),
        "validAfter": "0",
        "validBefore": str(now + terms.max_timeout_seconds),
        "nonce": NONCE,
        **{name.rstrip("_"): value for name, value in changes.items()},
    }
    message = encode_typed_data(full_message=typed_data(authorization, terms.network, **(domain or {})))
    signature = "0x" + Account.sign_message(message, key).signature.hex().removeprefix("0x")
    payload = {"signature": signature, "authorization": authorization}
    if version == 1:
        return {"x402Version": 1, "scheme": "exact", "network": terms.network.name, "payload": payload}
    return {"x402Version": 2, "accepted": {**terms.entry(2), **(accepted or {})}, "payload": payload}


def header(document: Json | bytes) -> str:
    """A document as a payment header."""
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.b64encode(raw).decode()


def decoded(value: str) -> Json:
    """What a payment header of ours says."""
    return json.loads(base64.b64decode(value, validate=True))


def a_payment(terms: PaymentTerms | None = None, **changes: Json) -> Payment:
    return read_payment(signed_payload(terms or some_terms(), **changes))


def a_request(headers: Mapping[str, str | list[str]]) -> Request:
    """A POST /execute with these headers."""
    many = {name: [value] if isinstance(value, str) else value for name, value in headers.items()}
    event = {"httpMethod": "POST", "resource": "/execute", "path": "/execute", "multiValueHeaders": many}
    return Request.from_event(event, lambda: 29_000)


def an_authorization(**changes: Json) -> Authorization:
    signed = Authorization(SEEKER, WORKER, 5_000_000, 0, NOW_S + 900, NONCE)
    return replace(signed, **changes)


def answered(status: int = 200, **document: Json) -> Answer:
    return Answer(status, document)


def settled(**changes: Json) -> Answer:
    """An answer of `/settle` that says the payment went through."""
    status = changes.pop("status", 200)
    success = {"success": True, "transaction": HASH, "network": BASE.caip2, "payer": SEEKER}
    return answered(status, **{**success, **changes})


def refused(reason: str, transaction: str = "", **changes: Json) -> Answer:
    """An answer of `/settle` that says no."""
    return settled(success=False, errorReason=reason, transaction=transaction, **changes)


SEPOLIA = NETWORKS["base-sepolia"]
