"""GET /ops/status: version, doors, settings without secrets, queues, pauses, and the oldest of what waits."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from piecework import __version__
from piecework.edge.roles import Caller
from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.ops.access import READS, require
from piecework.ops.ages import UNKNOWN, Age
from piecework.ops.standing import Standing

SHOWN: Final = (  # settings by their variables; they do not hold a secret, or an address that may hold one
    "PIECEWORK_PROVIDER_FAMILY",
    "PIECEWORK_MODEL_ID",
    "PIECEWORK_DEFAULT_EXECUTOR",
    "PIECEWORK_RESULT_TTL_SECONDS",
    "PIECEWORK_EXECUTE_TIMEOUT_MS",
    "PIECEWORK_STRICT_TASK_TYPES",
    "WORKER_AGENT_ID",
    "ALLOW_TESTNET",
    "DEFAULT_ATTEMPTS",
    "RESULT_DAYS",
    "REBUNO_EXECUTION_TIMEOUT",
    "REBUNO_STEP_TIMEOUT",
    "REBUNO_AGENT_TIMEOUT",
    "REBUNO_RETENTION_PERIOD",
)
DOORS: Final = ("runtime", "worker", "kernel")
QUEUES: Final[Mapping[str, str]] = {  # by name: how the variables of the queue and of its dead letters begin
    "task": "PIECEWORK_TASK",
    "webhook": "PIECEWORK_WEBHOOK",
    "due": "PIECEWORK_DUE",
    "kernel_due": "PIECEWORK_KERNEL_DUE",
    "kernel_hosted": "PIECEWORK_KERNEL_HOSTED",
    "kernel_notices": "PIECEWORK_KERNEL_NOTICES",
    "kernel_webhooks": "PIECEWORK_KERNEL_WEBHOOKS",
}


class Line(Protocol):
    """A queue that can be looked at."""

    def depth(self) -> tuple[int, int, int]:
        """About how many messages wait, are being worked on, and are delayed. Raises PieceworkError."""


class Watched(NamedTuple):
    """A queue and the queue of its dead letters."""

    line: Line
    dead_letters: Line


class Status:
    """What is deployed here, and how it stands."""

    def __init__(
        self,
        doors: str,
        settings: Mapping[str, str],
        queues: Mapping[str, Watched],
        ages: Callable[[], Mapping[str, Age]],
        standing: Standing,
    ) -> None:
        """`doors` is text such as `runtime=true,worker=false,kernel=true`; `ages` never raises PieceworkError."""
        self._doors, self._settings, self._queues, self._standing = doors, settings, queues, standing
        self._ages = ages

    def read(self, caller: Caller) -> dict[str, Json]:
        """The whole status; a queue that cannot be asked has null for what it holds.

        Raises:
            Forbidden: the caller may not read.
        """
        require(caller, READS)
        deployed = dict(pair.split("=", 1) for pair in self._doors.split(",") if "=" in pair)
        holding = {name: _of(watched) for name, watched in self._queues.items()}
        standing = self._standing.read()
        ages = self._ages()  # last: the rest does not wait for a service that nothing else needs
        return {
            "version": __version__,
            "doors": {door: deployed.get(door) == "true" for door in DOORS},
            "settings": {name: self._settings[name] for name in SHOWN if name in self._settings},
            "queues": {name: {**found, **_aged(ages.get(name, UNKNOWN))} for name, found in holding.items()},
            **standing,
        }


def _of(watched: Watched) -> dict[str, Json]:
    waiting, in_flight, delayed = _depth(watched.line)
    dead, looked_at, _ = _depth(watched.dead_letters)
    return {
        "waiting": waiting,
        "in_flight": in_flight,
        "delayed": delayed,
        "dead_letters": None if dead is None or looked_at is None else dead + looked_at,
    }


def _aged(age: Age) -> dict[str, Json]:
    return {"oldest_age_seconds": age.queue_seconds, "oldest_dead_letter_age_seconds": age.dead_letters_seconds}


def _depth(line: Line) -> tuple[int | None, int | None, int | None]:
    try:
        return line.depth()
    except PieceworkError:
        return None, None, None
