"""Secrets Manager, whose texts are kept for a minute, so that a rotation is noticed.

Executors call this too. They have no door to get a client from, so there is one for the process.
"""

import os
from collections.abc import Mapping
from functools import cache
from time import time
from typing import Any, Final

from piecework.aws.chosen import clients_of
from piecework.aws.clients import Clients
from piecework.aws.transport.failures import AwsFailure
from piecework.errors import Unavailable

MAX_AGE_SECONDS: Final = 60
_kept: Final[dict[str, tuple[str, float]]] = {}


def secret_text(arn: str) -> str:
    """The secret's text, whether it was stored as one or as bytes.

    Raises:
        Unavailable: Secrets Manager is out of reach or refuses, or the secret is not a text.
    """
    text, since = _kept.get(arn, ("", 0.0))
    if 0 <= time() - since < MAX_AGE_SECONDS:  # by the clock on the wall, which goes on during a freeze
        return text
    try:
        text = _text(_clients().secrets.get_secret_value(SecretId=arn))
    except (AwsFailure, KeyError, ValueError) as error:
        raise Unavailable("a secret is out of reach; try again") from error
    _kept[arn] = (text, time())
    return text


def _text(answer: Mapping[str, Any]) -> str:
    if "SecretString" in answer:
        return str(answer["SecretString"])
    from base64 import b64decode

    stored = answer["SecretBinary"]
    return (stored if isinstance(stored, bytes) else b64decode(stored)).decode()  # botocore gives bytes


@cache
def _clients() -> Clients:
    return clients_of(os.environ)
