"""Pauses in a dictionary, and an admission that a test closes and opens."""

from dataclasses import dataclass, field

from piecework.durable.pauses import MOST_PAUSES, Admission, Pause, Pauses
from piecework.errors import PieceworkError
from tests.support.fakes import START_MS, FakeClock
from tests.support.quiet import QuietLog


@dataclass
class FakePauses(Pauses):
    """Pauses in a dictionary, each method atomic; with a `failure`, out of reach."""

    held: dict[str, Pause] = field(default_factory=dict)
    failure: PieceworkError | None = None
    reads: int = 0

    def all(self) -> list[Pause]:
        self.reads += 1
        if self.failure:
            raise self.failure
        return sorted(self.held.values(), key=lambda pause: (pause.since_ms, pause.scope))

    def begin(self, pause: Pause) -> Pause | None:
        if pause.scope not in self.held and len(self.held) >= MOST_PAUSES:
            return None
        return self.held.setdefault(pause.scope, pause)

    def end(self, scope: str) -> bool:
        return self.held.pop(scope, None) is not None


class Switch:
    """An admission over pauses that a test begins and ends, which take effect at once."""

    def __init__(self) -> None:
        self.pauses, self.clock = FakePauses(), FakeClock()
        self.admission = Admission(self.pauses, self._moved, QuietLog().warning)

    def pause(self, scope: str) -> None:
        self.pauses.begin(Pause(scope, START_MS, "mia", "x"))

    def resume(self, scope: str) -> None:
        assert self.pauses.end(scope)

    def _moved(self) -> int:
        self.clock.move(60)
        return self.clock()
