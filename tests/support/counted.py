"""A client of AWS that counts its requests."""

from collections import Counter
from typing import Any


class Counted:
    """Passes every request on; `sent` has how many there were of each operation."""

    def __init__(self, client: Any) -> None:
        self._client, self.sent = client, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.sent[name] += 1
            return getattr(self._client, name)(**given)

        return call
