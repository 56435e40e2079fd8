"""Secrets Manager, whose texts are kept for a minute, so that a rotation is noticed.

Executors call this too. They have no door to get a client from, so there is one for the process.
"""

import os
from functools import cache
from time import monotonic
from typing import Final

from piecework.aws.chosen import clients_of
from piecework.aws.clients import Clients
from piecework.aws.transport.failures import AwsFailure
from piecework.errors import Unavailable

MAX_AGE_SECONDS: Final = 60
_kept: Final[dict[str, tuple[str, float]]] = {}


def secret_text(arn: str) -> str:
    """The secret's string.

    Raises:
        Unavailable: Secrets Manager is out of reach or refuses.
    """
    text, until = _kept.get(arn, ("", 0.0))
    if monotonic() < until:
        return text
    try:
        text = str(_clients().secrets.get_secret_value(SecretId=arn)["SecretString"])
    except (AwsFailure, KeyError) as error:
        raise Unavailable("a secret is out of reach; try again") from error
    _kept[arn] = (text, monotonic() + MAX_AGE_SECONDS)
    return text


@cache
def _clients() -> Clients:
    return clients_of(os.environ)
