"""The keys that an issuer publishes (RFC 7517), and signatures by them.

A key is one of a name and an algorithm. The token chooses among them by both, so a key is never used for another
algorithm than its own; algorithms with a shared secret, and none at all, are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from piecework.jsons import Json
from piecework.ops.access import SignInRefused
from piecework.ops.people.tokens import Signed, unpadded

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey = RSAPublicKey | EllipticCurvePublicKey

ALGORITHMS: Final = {"RS256": "RSA", "ES256": "EC"}  # and the type of their keys
MOST_KEYS: Final = 100
SMALLEST_RSA: Final = 2048  # bits
LARGEST_RSA: Final = 8192  # bits; the time to check a signature grows with the square
LARGEST_EXPONENT: Final = 32  # bits
COORDINATE_BYTES: Final = 32  # of a point of P-256, and of each half of a signature by it
NAME_CHARACTERS: Final = 256
Keys = Mapping[tuple[str, str], "PublicKey"]  # by name and algorithm


def named_key(token: Signed) -> tuple[str, str]:
    """The name and the algorithm of the key by which a token says that it is signed.

    Raises:
        SignInRefused: the algorithm is not taken, the key is not named, or the header asks for an extension (`crit`).
    """
    name, algorithm = token.header.get("kid"), token.header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise SignInRefused(f"the sign-in is signed by another algorithm than {' or '.join(ALGORITHMS)}")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS:
        raise SignInRefused("the sign-in does not name its key")
    if "crit" in token.header or "b64" in token.header:
        raise SignInRefused("the sign-in asks for an extension that is not known here")
    return name, algorithm


def keys_in(document: Json) -> dict[tuple[str, str], PublicKey]:
    """The keys of a published set that can check a sign-in; others, and those that cannot be read, are left out.

    Of two keys with the same name and algorithm the first counts.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    found: dict[tuple[str, str], PublicKey] = {}
    for entry in (listed if isinstance(listed, list) else [])[:MOST_KEYS]:
        for place, key in _read(entry):
            found.setdefault(place, key)
    return found


def is_signed_by(key: PublicKey, token: Signed) -> bool:
    """Whether the token's signature is one by this key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        (_rsa if isinstance(key, RSAPublicKey) else _ec)(key, token)
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(entry: Json) -> Iterator[tuple[tuple[str, str], PublicKey]]:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or not isinstance(entry.get("kid"), str):
        return
    for algorithm, kind in ALGORITHMS.items():
        if entry.get("kty") == kind and entry.get("alg", algorithm) == algorithm:
            try:
                yield (entry["kid"], algorithm), MADE[kind](entry)
            except (ValueError, KeyError, TypeError, AttributeError):  # a member is missing, of another type or wrong
                continue


def _rsa_key(entry: Mapping[str, Any]) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus, exponent = _number(entry["n"]), _number(entry["e"])
    if not SMALLEST_RSA <= modulus.bit_length() <= LARGEST_RSA or exponent.bit_length() > LARGEST_EXPONENT:
        raise ValueError("not a key of a usual size")
    return RSAPublicNumbers(exponent, modulus).public_key()


def _ec_key(entry: Mapping[str, Any]) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers

    if entry["crv"] != "P-256" or {len(unpadded(entry[name])) for name in "xy"} != {COORDINATE_BYTES}:
        raise ValueError("another curve")
    return EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), SECP256R1()).public_key()


def _number(text: str) -> int:
    return int.from_bytes(unpadded(text), "big")


def _rsa(key: Any, token: Signed) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    key.verify(token.signature, token.signed, PKCS1v15(), SHA256())


def _ec(key: Any, token: Signed) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    halves = token.signature[:COORDINATE_BYTES], token.signature[COORDINATE_BYTES:]
    if {len(half) for half in halves} != {COORDINATE_BYTES}:
        raise ValueError("not two numbers of 32 bytes")
    key.verify(encode_dss_signature(*(int.from_bytes(half, "big") for half in halves)), token.signed, ECDSA(SHA256()))


MADE: Final[Mapping[str, Callable[[Mapping[str, Any]], PublicKey]]] = {"RSA": _rsa_key, "EC": _ec_key}
