"""What a door gets from outside: Lambda's context, and the telemetry that takes outcome lines."""

from collections.abc import Mapping
from typing import Any, Protocol


class Telemetry(Protocol):
    """Takes outcome lines and counts."""

    def outcome(self, name: str, facts: Mapping[str, Any], counts: Mapping[str, int]) -> None: ...

    def bug(self, name: str) -> None: ...


class LambdaContext(Protocol):
    """The part of Lambda's context that functions use."""

    def get_remaining_time_in_millis(self) -> int: ...
