"""What a door is given from outside: Lambda's context, and somebody who writes down what came of a request."""

from collections.abc import Mapping
from typing import Any, Protocol


class Telemetry(Protocol):
    """Where outcome lines and counts go."""

    def outcome(self, name: str, facts: Mapping[str, Any], counts: Mapping[str, int]) -> None: ...

    def bug(self, name: str) -> None: ...


class LambdaContext(Protocol):
    """The part of Lambda's context that functions use."""

    def get_remaining_time_in_millis(self) -> int: ...
