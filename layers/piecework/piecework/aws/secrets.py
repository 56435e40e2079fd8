"""Secrets Manager, read through Powertools Parameters and kept for a minute, so that a rotation is noticed."""

from typing import Final

from aws_lambda_powertools.utilities import parameters
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

from piecework.errors import Unavailable

MAX_AGE_SECONDS: Final = 60


def secret_text(arn: str) -> str:
    """The secret's string.

    Raises:
        Unavailable: Secrets Manager is out of reach or refuses.
    """
    try:
        return str(parameters.get_secret(arn, max_age=MAX_AGE_SECONDS))
    except GetParameterError as error:
        raise Unavailable("a secret is out of reach; try again") from error
