"""Credentials for the CDP facilitator: a short-lived token for each request, signed with an API key.

    authenticate = cdp_authenticator(secret_text)        # a Facilitator's `Authenticate`
    key = CdpKey.read(secret_text)                       # the JSON that the CDP portal hands out

Both kinds of key are read: Ed25519 (base64 of seed and public key) and ECDSA P-256 (PEM).
"""

import base64
import binascii
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from piecework.errors import BadRequest, PieceworkError
from piecework.jsons import loads
from piecework.values import dataclass, field
from piecework.worker.payment.facilitator import CredentialsMissing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TOKEN_SECONDS: Final = 120  # the longest that CDP takes
ISSUER: Final = "cdp"
SEED_BYTES: Final = 32
ED25519_LENGTHS: Final = frozenset({SEED_BYTES, 2 * SEED_BYTES})


@dataclass(frozen=True, slots=True)
class CdpKey:
    """An API key's name and its private half."""

    name: str
    secret: str = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a key file: `id` or `name`, and `privateKey`.

        Raises:
            CredentialsMissing: it is not such a file.
        """
        try:
            document = loads(text)
        except BadRequest:
            document = None
        found = document if isinstance(document, dict) else {}
        name, secret = found.get("id") or found.get("name"), found.get("privateKey")
        if not (isinstance(name, str) and isinstance(secret, str) and name and secret):
            raise CredentialsMissing("the facilitator's secret must hold id (or name) and privateKey")
        return cls(name, secret)


def cdp_authenticator(
    secret_text: Callable[[], str], clock: Callable[[], float] = time.time
) -> Callable[[str, str], Mapping[str, str]]:
    """Headers for a request, from the secret as it is at that time: a rotated key needs no new deployment."""

    def authenticate(method: str, url: str) -> Mapping[str, str]:
        try:
            text = secret_text()
        except PieceworkError as error:
            raise CredentialsMissing("the facilitator's secret cannot be read") from error
        return {"Authorization": f"Bearer {token(CdpKey.read(text), method, url, int(clock()))}"}

    return authenticate


def token(key: CdpKey, method: str, url: str, now: int) -> str:
    """A token that is good for this method and address alone.

    Raises:
        CredentialsMissing: the key cannot be read.
    """
    import jwt

    parts = urlsplit(url)
    claims = {
        "sub": key.name,
        "iss": ISSUER,
        "iat": now,
        "nbf": now,
        "exp": now + TOKEN_SECONDS,
        "uris": [f"{method} {parts.netloc}{parts.path}"],
    }
    private, algorithm = _private_key(key.secret)
    headers = {"kid": key.name, "nonce": secrets.token_hex(16)}
    return jwt.encode(claims, private, algorithm=algorithm, headers=headers)


def _private_key(secret: str) -> tuple["EllipticCurvePrivateKey | Ed25519PrivateKey", str]:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if not secret.lstrip().startswith("-----"):
            raw = base64.b64decode(secret, validate=True)
            if len(raw) not in ED25519_LENGTHS:
                raise ValueError
            return Ed25519PrivateKey.from_private_bytes(raw[:SEED_BYTES]), "EdDSA"
        key = load_pem_private_key(secret.encode(), password=None)
    except (ValueError, TypeError, binascii.Error):
        raise CredentialsMissing("the facilitator's private key cannot be read") from None
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name == "secp256r1":
        return key, "ES256"
    if isinstance(key, Ed25519PrivateKey):
        return key, "EdDSA"
    raise CredentialsMissing("the facilitator's private key is neither Ed25519 nor P-256")
