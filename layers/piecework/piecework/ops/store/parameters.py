"""Parameter Store: texts that a deployment knows only after its functions exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from piecework.aws.transport.failures import AwsFailure
from piecework.errors import Unavailable

if TYPE_CHECKING:
    from piecework.aws.transport.ssm import SSM


class ParameterStore:
    """Reads parameters through one client, which is made when it is first used."""

    def __init__(self, client: Callable[[], SSM]) -> None:
        self._client = client

    def text(self, name: str) -> str:
        """A parameter's text. Raises Unavailable where it is out of reach, missing or no text."""
        try:
            found = self._client().get_parameter(Name=name)["Parameter"]["Value"]
        except (AwsFailure, KeyError, TypeError) as error:
            raise Unavailable("a parameter is out of reach; try again") from error
        if not isinstance(found, str) or not found:
            raise Unavailable("a parameter is out of reach; try again")
        return found
