"""The key inside a webhook's secret, as Standard Webhooks writes it: `whsec_` and base64."""

import base64
import binascii
from typing import Final

KEY_BYTES: Final = range(24, 65)
PREFIX: Final = "whsec_"


def key_of(secret: str) -> bytes:
    """The key inside a secret.

    Raises:
        ValueError: it is not `whsec_` and 24 to 64 bytes in base64, as an encoder writes them.
    """
    encoded = secret.removeprefix(PREFIX).encode()
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(PREFIX) or base64.b64encode(key) != encoded or len(key) not in KEY_BYTES:
        raise ValueError("not whsec_ and the base64 of 24 to 64 bytes")
    return key
