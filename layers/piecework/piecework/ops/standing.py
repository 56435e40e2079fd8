"""How things stand: what is paused, and since when the oldest of what waits has waited."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from piecework.durable.pauses import Pause
from piecework.errors import PieceworkError
from piecework.jsons import Json

AGENTS_SHOWN: Final = 100  # that are paused
OLDEST: Final = ("doubt", "approval")


class Unknowable(Exception):
    """More stands there than is read."""


class Oldest(NamedTuple):
    """What has waited longest: a contract's or an execution's id, and since when."""

    since_ms: int
    of: str


class ReadsPaused(Protocol):
    """Reads some of what is paused, in one request."""

    def __call__(self) -> list[Pause]: ...


class Standing:
    """What operators see at a glance; each part is a bounded number of reads."""

    def __init__(
        self,
        doors: ReadsPaused,
        agents: ReadsPaused,
        oldest: Mapping[str, Callable[[], Oldest | None]],
        clock: Callable[[], int],
    ) -> None:
        """`agents` gives one more than are shown, where there are more; `oldest` raises Unknowable."""
        self._doors, self._agents, self._oldest, self._clock = doors, agents, oldest, clock

    def read(self) -> dict[str, Json]:
        """What is paused, and the oldest of each kind; what cannot be read is null, and not known."""
        doors, agents = _read(self._doors), _read(self._agents)
        return {
            "paused": None if doors is None else [pause._asdict() for pause in doors],
            "paused_agents": None if agents is None else [pause._asdict() for pause in agents[:AGENTS_SHOWN]],
            "has_more_paused_agents": agents is not None and len(agents) > AGENTS_SHOWN,
            "oldest": {name: self._told(self._oldest[name]) for name in OLDEST if name in self._oldest},
        }

    def _told(self, look: Callable[[], Oldest | None]) -> dict[str, Json]:
        try:
            found = look()
        except (PieceworkError, Unknowable):
            return {"is_known": False, "of": None, "since_ms": None, "age_seconds": None}
        if found is None:
            return {"is_known": True, "of": None, "since_ms": None, "age_seconds": None}
        age_seconds = max(0, self._clock() - found.since_ms) // 1000
        return {"is_known": True, "of": found.of, "since_ms": found.since_ms, "age_seconds": age_seconds}


def _read(paused: ReadsPaused) -> list[Pause] | None:
    try:
        return paused()
    except PieceworkError:
        return None
