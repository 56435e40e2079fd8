"""Crashes on purpose: stops a flow before or after its n-th call to AWS, as a killed process would."""

import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPORT = Path(__file__).parents[2] / "build" / "crash.json"


class Crashed(BaseException):
    """The process is gone; nothing catches this, and its code does not go on."""


@dataclass
class Tap:
    """Counts calls and crashes at one point: 2n is before call n, 2n + 1 after it."""

    point: int | None = None
    calls: list[str] = field(default_factory=list)

    def arm(self, point: int | None) -> None:
        self.point = point
        self.calls = []

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def tapped(*args: Any, **kwargs: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            self._maybe(2 * number)
            try:
                return call(*args, **kwargs)
            finally:
                self._maybe(2 * number + 1)

        return tapped

    def _maybe(self, point: int) -> None:
        if self.point == point:
            raise Crashed(f"at point {point}: {self.calls[-1]}")


class Tapped:
    """A boto3 client all of whose calls go through a tap."""

    def __init__(self, client: Any, tap: Tap) -> None:
        self._client = client
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._tap.around(name, found) if callable(found) else found


def report(flow: str, points: int, violations: list[str]) -> None:
    """Add one flow's figures to `build/crash.json`, which all processes of a run share."""
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        figures = json.loads(file.read() or "{}") | {flow: {"points": points, "violations": len(violations)}}
        file.truncate(0)
        file.write(json.dumps(figures, indent=1, sort_keys=True) + "\n")
