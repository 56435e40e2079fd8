"""A client of AWS that counts its requests."""

import threading
from collections import Counter
from typing import Any


class Counted:
    """Passes every request on; `sent` has how many there were of each operation, in all threads."""

    def __init__(self, client: Any) -> None:
        self._client, self._lock, self.sent = client, threading.Lock(), Counter[str]()

    def __getattr__(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            with self._lock:
                self.sent[name] += 1
            return getattr(self._client, name)(**given)

        return call

    def take(self) -> int:
        """Requests since the last look."""
        with self._lock:
            total, self.sent = self.sent.total(), Counter()
        return total
