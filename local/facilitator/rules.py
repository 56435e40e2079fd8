"""The stub's checks of a payment, in the order of the public facilitators.

The token's address and signing domain come from the stub's own table, because a wrong name would pass a stub that
trusts the announced domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_typed_data

from local.facilitator.ledger import Ledger, Transfer

LEAST_SECONDS_LEFT: Final = 6


@dataclass(frozen=True, slots=True)
class Token:
    """The USDC of one chain."""

    chain_id: int
    address: str
    name: str
    version: str


TOKENS: Final[Mapping[str, Token]] = {
    "eip155:8453": Token(8453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2"),
    "eip155:84532": Token(84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2"),
}
ALIASES: Final[Mapping[str, str]] = {"base": "eip155:8453", "base-sepolia": "eip155:84532"}
EVM: Final = "invalid_exact_evm_payload"
TRANSFER_FIELDS: Final = {
    "from": "address",
    "to": "address",
    "value": "uint256",
    "validAfter": "uint256",
    "validBefore": "uint256",
    "nonce": "bytes32",
}
DOMAIN_FIELDS: Final = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the facilitator, read."""

    network: str
    payer: str
    transfer: Transfer
    reason: str | None  # why the payment is refused; None if it is not


def examine(question: Mapping[str, Any], ledger: Ledger) -> Asked:
    """Read a request and find the first rule that its payment breaks.

    Raises:
        KeyError, TypeError, ValueError: it cannot be read.
    """
    payload, required = question["paymentPayload"], question["paymentRequirements"]
    authorization = payload["payload"]["authorization"]
    transfer = Transfer(
        asset=required["asset"].lower(),
        payer=authorization["from"].lower(),
        pay_to=authorization["to"].lower(),
        value=int(authorization["value"]),
        nonce=authorization["nonce"].lower(),
    )
    reason = _reason(question, authorization, transfer, ledger)
    return Asked(required["network"], authorization["from"], transfer, reason)


def _reason(
    question: Mapping[str, Any], authorization: Mapping[str, Any], transfer: Transfer, ledger: Ledger
) -> str | None:
    payload, required = question["paymentPayload"], question["paymentRequirements"]
    accepted = payload["accepted"] if question["x402Version"] == 2 else payload
    token = TOKENS.get(ALIASES.get(required["network"], required["network"]))
    now = ledger.clock()
    price = int(required["amount"] if question["x402Version"] == 2 else required["maxAmountRequired"])
    rules = (
        ("unsupported_scheme", lambda: accepted["scheme"] == required["scheme"] == "exact"),
        ("network_mismatch", lambda: accepted["network"] == required["network"]),
        ("invalid_network", lambda: token is not None),
        ("missing_eip712_domain", lambda: {"name", "version"} <= set(required.get("extra") or {})),
        (f"{EVM}_recipient_mismatch", lambda: transfer.pay_to == required["payTo"].lower()),
        (f"{EVM}_authorization_value_mismatch", lambda: transfer.value == price),
        (
            f"{EVM}_authorization_valid_before",
            lambda: int(authorization["validBefore"]) >= now + LEAST_SECONDS_LEFT,
        ),
        (f"{EVM}_authorization_valid_after", lambda: int(authorization["validAfter"]) <= now),
        (f"{EVM}_signature", lambda: token is not None and _signer(payload, token) == transfer.payer),
        ("asset_not_deployed_contract", lambda: token is not None and token.address.lower() == transfer.asset),
        ("invalid_exact_evm_nonce_already_used", lambda: ledger.spent_by(transfer) is None),
        ("invalid_exact_evm_insufficient_balance", lambda: ledger.can_pay(transfer)),
    )
    return next((reason for reason, holds in rules if not holds()), None)


def typed_transfer(authorization: Mapping[str, Any], token: Token) -> dict[str, Any]:
    """The EIP-712 typed data that a payer signs."""
    return {
        "types": {
            "EIP712Domain": _fields(DOMAIN_FIELDS),
            "TransferWithAuthorization": _fields(TRANSFER_FIELDS),
        },
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": token.name,
            "version": token.version,
            "chainId": token.chain_id,
            "verifyingContract": token.address,
        },
        "message": {
            name: int(authorization[name]) if kind == "uint256" else authorization[name]
            for name, kind in TRANSFER_FIELDS.items()
        },
    }


def _signer(payload: Mapping[str, Any], token: Token) -> str:
    signed, signature = typed_transfer(payload["payload"]["authorization"], token), payload["payload"]["signature"]
    try:
        signer = Account.recover_message(encode_typed_data(full_message=signed), signature=signature)
    except Exception:  # noqa: BLE001  # any error of the library means a wrong signature
        return ""
    return str(signer).lower()


def _fields(fields: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in fields.items()]
