"""The contract's hash and the parties' signatures over it: RFC 8785 and EIP-712 (worker specification 3.2, 3.3).

The role is part of what is signed, so one party's signature cannot stand in for the other's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal, Protocol

from piecework.jsons import Json
from piecework.worker.chain.networks import Network

Role = Literal["worker", "seeker"]

NOT_HASHED: Final = frozenset({"signatures", "hash"})
WORD_BYTES: Final = 32
SIGNATURE: Final = re.compile(r"0x[0-9a-fA-F]{130}")
DOMAIN: Final = "EIP712Domain(string name,string version,uint256 chainId)"
MESSAGE: Final = "HireContract(string contractId,bytes32 contractHash,string role)"


class SignatureCheck(Protocol):
    """Decides whether a wallet signed a digest; the default recovers the wallet's key, others may ask a chain."""

    def __call__(self, wallet: str, digest: bytes, signature: str, network: Network) -> bool: ...


def contract_bytes(document: Mapping[str, Json]) -> bytes:
    """What is hashed: the RFC 8785 form of the contract without its top-level `signatures` and `hash`.

    Raises:
        ValueError: it has no such form, for example an integer beyond 2^53.
    """
    import rfc8785

    try:
        return rfc8785.dumps({key: value for key, value in document.items() if key not in NOT_HASHED})
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"the contract has no canonical form: {error}") from None


def contract_hash(document: Mapping[str, Json]) -> str:
    """The contract's hash, `sha256:` and 64 hex digits. Raises ValueError as `contract_bytes`."""
    return "sha256:" + hashlib.sha256(contract_bytes(document)).hexdigest()


def signing_digest(contract_id: str, contract_hash: str, role: Role, network: Network) -> bytes:
    """The 32 bytes that a party's wallet signs: EIP-712's, in the domain HIRE 1.0 of the network's chain.

    They are made here, because the import of `eth_account` takes half a second more.

    Raises:
        ValueError: the hash is not one of 32 bytes, or the id cannot be written in UTF-8.
    """
    hashed = bytes.fromhex(contract_hash.removeprefix("sha256:"))
    if len(hashed) != WORD_BYTES:
        raise ValueError("the hash of a contract has 32 bytes")
    domain = _struct(DOMAIN, _text("HIRE"), _text("1.0"), network.chain_id.to_bytes(WORD_BYTES, "big"))
    return _keccak(b"\x19\x01" + domain + _struct(MESSAGE, _text(contract_id), hashed, _text(role)))


def sign(key: str, contract_id: str, contract_hash: str, role: Role, network: Network) -> str:
    """A party's signature, made with its private key in hex."""
    from eth_keys.datatypes import PrivateKey

    signer = PrivateKey(bytes.fromhex(key.removeprefix("0x")))
    raw = signer.sign_msg_hash(signing_digest(contract_id, contract_hash, role, network)).to_bytes()
    return "0x" + (raw[:64] + bytes([raw[64] + 27])).hex()


def _struct(kind: str, *words: bytes) -> bytes:
    return _keccak(_text(kind) + b"".join(words))


def _text(text: str) -> bytes:
    """A text's word in a struct: its hash."""
    return _keccak(text.encode())


def _keccak(data: bytes) -> bytes:
    from eth_utils.crypto import keccak

    return bytes(keccak(data))


def is_signed_by_key(wallet: str, digest: bytes, signature: str, network: Network) -> bool:
    """Whether the signature is 65 bytes and recovers to the wallet's own address, on whatever chain."""
    from eth_keys.datatypes import Signature
    from eth_keys.exceptions import BadSignature
    from eth_utils.exceptions import ValidationError

    if not SIGNATURE.fullmatch(signature):
        return False
    raw = bytes.fromhex(signature[2:])
    try:
        recovery = raw[64] - 27 if raw[64] >= 27 else raw[64]  # wallets write 27 and 28, hardware ones 0 and 1
        signed = Signature(raw[:64] + bytes([recovery]))
        return signed.recover_public_key_from_msg_hash(digest).to_address() == wallet.lower()
    except (BadSignature, ValidationError, ValueError):
        return False
