"""A client whose every conditional write is done and its answer lost, so that it is sent once more, as a client does.

Whoever stands on such a client must come to the same answers as over one that loses nothing. A transaction is sent
again with its token, which AWS recognises by itself; S3 may find a first try under way before it finds it written.
"""

import secrets
from collections.abc import Callable
from typing import Any

from piecework.aws.transport.failures import ServiceRefused

WRITES = frozenset({"put_item", "update_item", "delete_item", "transact_write_items", "put_object"})


class LostAnswers:
    """A DynamoDB or S3 client; calls that only read go through once."""

    def __init__(self, client: Any, *, conflicts: int = 0) -> None:
        self._client = client
        self._conflicts = conflicts  # how often S3 says of the second try that the first is still under way
        self.repeated = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        return self._twice(name, call) if name in WRITES else call

    def _twice(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def repeated(**given: Any) -> Any:
            if name != "transact_write_items" and not {"ConditionExpression", "IfNoneMatch"} & given.keys():
                return call(**given)  # counts only, which a repeat may make wrong by one
            if name == "transact_write_items":
                given.setdefault("ClientRequestToken", secrets.token_hex(16))
            if name == "put_object" and self._conflicts and self.repeated:
                self._conflicts -= 1
                raise conflict()
            call(**given)
            self.repeated += 1
            if name == "put_object" and self._conflicts:
                self._conflicts -= 1
                raise conflict()
            try:
                return call(**given)
            except ServiceRefused as refused:
                refused.retries = 1
                raise

        return repeated


def conflict() -> ServiceRefused:
    """What S3 answers to a conditional write while another write of the key is under way."""
    return ServiceRefused("ConditionalRequestConflict", "At least one of the conditions cannot be met", status=409)
