"""What a payment header must hold before a facilitator is asked (worker specification 2.3, 2.6, 2.7).

    payment = parse_payment(request, v1=True)           # Payment | None; L1: raises PAYMENT_MALFORMED, PaymentInvalid
    check_payment(payment, terms, contract, now_ms)     # L2 to L7: raises PaymentInvalid (402) or CONTRACT_MISMATCH
    claim_key(payment.authorization, network)           # L8 is the claim on this key: chainId/asset/from/nonce
    covers_an_attempt(payment.authorization, terms, now_ms)     # is there time left to work and to settle (2.10)
    payment.document                                    # what is kept (encrypted) and sent to the facilitator
    read_payment(document)                              # the Payment again

Prices and the 402 itself are in `piecework.worker.payment.terms`. A payment is a bearer secret: it is in no `repr`, no
message.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from types import UnionType
from typing import Final

from piecework.edge.http import Request
from piecework.errors import BadRequest
from piecework.jsons import Json, check_depth, loads
from piecework.values import dataclass, field
from piecework.worker.chain.networks import Network
from piecework.worker.errors import WorkerError
from piecework.worker.payment.terms import SCHEME, Contract, PaymentTerms

HEADER: Final[Mapping[int, str]] = {2: "payment-signature", 1: "x-payment"}
HEADER_BYTES: Final = 8_192  # the edge takes 10,240 for all headers together
JSON_DEPTH: Final = 32
SETTLE_MARGIN_MS: Final = 60_000  # of an authorization's life that must be left when the work ends
UINT256_MAX: Final = 2**256 - 1
FORWARDED: Final[Mapping[int, frozenset[str]]] = {
    2: frozenset({"x402Version", "accepted", "payload", "resource", "extensions"}),
    1: frozenset({"x402Version", "scheme", "network", "payload"}),
}

ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
NONCE: Final = re.compile(r"0x[0-9a-fA-F]{64}")
DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,77}")
SIGNATURE: Final = re.compile(r"0x(?:[0-9a-fA-F]{2}){65,}")  # longer than a wallet's for contracts that are wallets

UNSUPPORTED_SCHEME: Final = "unsupported_scheme"
REQUIREMENTS: Final = "invalid_payment_requirements"
RECIPIENT: Final = "invalid_exact_evm_payload_recipient_mismatch"
VALUE: Final = "invalid_exact_evm_payload_authorization_value_mismatch"
VALID_AFTER: Final = "invalid_exact_evm_payload_authorization_valid_after"
VALID_BEFORE: Final = "invalid_exact_evm_payload_authorization_valid_before"


class PaymentInvalid(WorkerError):
    """A payment that can be read but does not pay this contract; `reason` is x402's word for why."""

    def __init__(self, reason: str, message: str = "the payment is not valid for this contract") -> None:
        super().__init__("PAYMENT_INVALID", message, {"reason": reason})
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Authorization:
    """What the payer signed: an EIP-3009 transfer of `value` units, good between two times, once per nonce."""

    from_: str
    to: str
    value: int
    valid_after: int  # seconds
    valid_before: int  # seconds
    nonce: str


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment header, read; `document` holds the signature and is what a facilitator gets."""

    version: int
    authorization: Authorization
    document: dict[str, Json] = field(repr=False)


def parse_payment(request: Request, *, v1: bool = True) -> Payment | None:
    """The request's payment, or None without a payment header (L1).

    Raises:
        WorkerError: PAYMENT_MALFORMED; two payments, or one that cannot be read.
        PaymentInvalid: a kind of authorization that is not served here.
    """
    sent = [(version, value) for version, name in HEADER.items() for value in request.headers.get(name, [])]
    if not sent:
        return None
    if len(sent) > 1:
        raise _malformed("send one payment header")
    version, value = sent[0]
    if version == 1 and not v1:
        raise _malformed("send the payment in PAYMENT-SIGNATURE; x402 version 1 is switched off here")
    document = _decode(value)
    if not _same(version, document.get("x402Version")):
        raise _malformed(f"x402Version must be {version} in this header")
    return read_payment({name: member for name, member in document.items() if name in FORWARDED[version]})


def read_payment(document: Mapping[str, Json]) -> Payment:
    """The payment in a PaymentPayload of either version.

    Raises:
        WorkerError: PAYMENT_MALFORMED; a member is missing or of the wrong form.
        PaymentInvalid: a kind of authorization that is not served here.
    """
    version = int(document["x402Version"])
    if version == 2:
        _object(document, "accepted")
        _optional(document, "resource", dict | str)
        _optional(document, "extensions", dict)
    else:
        _text(document, "scheme", None)
        _text(document, "network", None)
    payload = _object(document, "payload")
    if "permit2Authorization" in payload and "authorization" not in payload:
        raise PaymentInvalid(UNSUPPORTED_SCHEME, "pay with an EIP-3009 authorization")
    _text(payload, "signature", SIGNATURE)
    return Payment(version, _authorization(_object(payload, "authorization")), dict(document))


def check_payment(
    payment: Payment, terms: PaymentTerms, contract: Contract, now_ms: int, *, bind_payer: bool = True
) -> None:
    """Refuse a payment that is not exactly this contract's (L2 to L7); the first failure wins.

    Raises:
        PaymentInvalid: other terms, recipient, value or times.
        WorkerError: CONTRACT_MISMATCH; another wallet than the contract's seeker pays.
    """
    signed = payment.authorization
    checks = (
        (_accepts(payment, terms), REQUIREMENTS),
        (signed.to.lower() == terms.pay_to.lower(), RECIPIENT),
        (signed.value == terms.atomic, VALUE),
        (signed.valid_after * 1000 <= now_ms, VALID_AFTER),
        (covers_an_attempt(signed, terms, now_ms), VALID_BEFORE),
    )
    for holds, reason in checks:
        if not holds:
            raise PaymentInvalid(reason)
    if bind_payer and signed.from_.lower() != contract.seeker_wallet.lower():
        raise WorkerError("CONTRACT_MISMATCH", "the payer is not the contract's seeker wallet")


def covers_an_attempt(authorization: Authorization, terms: PaymentTerms, now_ms: int) -> bool:
    """Whether an attempt that starts now can end and still be settled."""
    return authorization.valid_before * 1000 >= now_ms + terms.latency_ms + SETTLE_MARGIN_MS


def claim_key(authorization: Authorization, network: Network) -> str:
    """What can be spent once on the chain, and so may be claimed once here."""
    return f"{network.chain_id}/{network.usdc}/{authorization.from_}/{authorization.nonce}".lower()


def _decode(value: str) -> dict[str, Json]:
    try:
        text = value.encode("ascii")
        if len(text) > HEADER_BYTES:
            raise _malformed(f"the payment header is over {HEADER_BYTES} bytes")
        raw = base64.b64decode(text, validate=True)
        if base64.b64encode(raw) != text:
            raise _malformed("the payment header is not padded standard base64")
        check_depth(raw, JSON_DEPTH)
        document = loads(raw)
    except (binascii.Error, UnicodeEncodeError):
        raise _malformed("the payment header is not base64") from None
    except BadRequest:
        raise _malformed("the payment header does not hold JSON") from None
    if not isinstance(document, dict):
        raise _malformed("the payment header must hold a JSON object")
    return document


def _authorization(members: Mapping[str, Json]) -> Authorization:
    return Authorization(
        from_=_text(members, "from", ADDRESS),
        to=_text(members, "to", ADDRESS),
        value=_number(members, "value"),
        valid_after=_number(members, "validAfter"),
        valid_before=_number(members, "validBefore"),
        nonce=_text(members, "nonce", NONCE),
    )


def _accepts(payment: Payment, terms: PaymentTerms) -> bool:
    """L2: the terms that the client says it accepted are the ones we ask for."""
    if payment.version == 1:
        said = payment.document
        return (said["scheme"], said["network"]) == (SCHEME, terms.network.name)
    ours, theirs = terms.entry(2), payment.document["accepted"]
    exactly = all(_same(ours[name], theirs.get(name)) for name in ("scheme", "network", "amount", "maxTimeoutSeconds"))
    loosely = all(ours[name].lower() == _lower(theirs.get(name)) for name in ("asset", "payTo"))
    extra = theirs.get("extra")
    return exactly and loosely and isinstance(extra, dict) and ours["extra"].items() <= _plain(extra).items()


def _same(ours: Json, theirs: Json) -> bool:
    return type(ours) is type(theirs) and bool(ours == theirs)


def _lower(value: Json) -> str | None:
    return value.lower() if isinstance(value, str) else None


def _plain(extra: Mapping[str, Json]) -> dict[str, str]:
    return {name: value for name, value in extra.items() if isinstance(value, str)}


def _object(members: Mapping[str, Json], name: str) -> dict[str, Json]:
    value = members.get(name)
    if not isinstance(value, dict):
        raise _malformed(f"{name} must be an object in the payment")
    return value


def _optional(members: Mapping[str, Json], name: str, kind: type | UnionType) -> None:
    if members.get(name) is not None and not isinstance(members[name], kind):
        raise _malformed(f"{name} has the wrong type in the payment")


def _text(members: Mapping[str, Json], name: str, form: re.Pattern[str] | None) -> str:
    value = members.get(name)
    if not isinstance(value, str) or (form and not form.fullmatch(value)):
        raise _malformed(f"{name} is missing or has the wrong form in the payment")
    return value


def _number(members: Mapping[str, Json], name: str) -> int:
    value = int(_text(members, name, DECIMAL))
    if value > UINT256_MAX:
        raise _malformed(f"{name} does not fit 256 bits")
    return value


def _malformed(message: str) -> WorkerError:
    return WorkerError("PAYMENT_MALFORMED", message)
