"""The kernel door's times (specification sections 1.7, 1.8 and 8), read once from the environment."""

from collections.abc import Mapping
from typing import Final, Self

from piecework.clock import DAY_MS
from piecework.kernel.policy.durations import duration_ms
from piecework.settings import Reader
from piecework.values import dataclass

REMOTE_ATTEMPTS: Final = 3  # of a remote step; local ones are never retried
MAX_ACTIVE_STEPS: Final = 500  # of one execution at a time; about 100 KB of its checkpoint
MAX_STORED_SIGNALS: Final = 500  # of one execution; about 150 KB of its checkpoint with the longest types
SESSION_AFTER_END_MS: Final = 30_000  # an intent after the end is answered 409 for this time, then 401
NAME_KEPT_MS: Final = 400 * DAY_MS  # of a token under which an agent has connected; renewed when half of it is over
MOST_NAMES: Final = 16  # of tokens that one execution's agent has used; kept in its checkpoint
ENDED_AT_ONCE: Final = 40  # steps ended in one transaction; each may need two items of its hundred

DURATIONS: Final = {
    "execution_timeout_ms": ("REBUNO_EXECUTION_TIMEOUT", "1h"),
    "step_timeout_ms": ("REBUNO_STEP_TIMEOUT", "5m"),
    "agent_timeout_ms": ("REBUNO_AGENT_TIMEOUT", "30s"),
    "retry_base_ms": ("REBUNO_RETRY_BASE_DELAY", "1s"),
    "retry_max_ms": ("REBUNO_RETRY_MAX_DELAY", "30s"),
    "retention_ms": ("REBUNO_RETENTION_PERIOD", "168h"),
    "lost_grace_ms": ("PIECEWORK_KERNEL_LOST_GRACE", "1s"),
    "rotation_grace_ms": ("PIECEWORK_KERNEL_ROTATION_GRACE", "10s"),
    "lease_ms": ("PIECEWORK_KERNEL_LEASE", "12s"),
    "heartbeat_ms": ("PIECEWORK_KERNEL_HEARTBEAT", "5s"),
}
NEVER: Final = ("", "0", "off", "0s")

LONGEST_KEPT_MS: Final = 3_600 * DAY_MS  # the bucket drops what nobody removed after 3,650 days


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Every time the kernel goes by, in milliseconds."""

    execution_timeout_ms: int = 3_600_000
    step_timeout_ms: int = 300_000
    agent_timeout_ms: int = 30_000  # a session's life after the last sign of its agent
    retry_base_ms: int = 1_000
    retry_max_ms: int = 30_000
    retention_ms: int = 604_800_000
    lost_grace_ms: int = 1_000  # for a successor, after a client has closed its stream
    rotation_grace_ms: int = 10_000  # for a successor, after we have ended a stream on purpose
    lease_ms: int = 12_000  # of an open stream, from each heartbeat
    heartbeat_ms: int = 5_000
    rotation_ms: int = 0  # how long agent and runner streams live; 0: without end

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Read the times, written as Go writes durations.

        Raises:
            SettingsError: a time has no meaning; the message names every such one.
        """
        reader = Reader(env)
        times = {field: _duration(reader, *setting) for field, setting in DURATIONS.items()}
        rotation = reader.text("PIECEWORK_KERNEL_ROTATION", "0")
        rotation_ms = 0 if rotation in NEVER else _duration(reader, "PIECEWORK_KERNEL_ROTATION", "0")
        if times["execution_timeout_ms"] + times["retention_ms"] > LONGEST_KEPT_MS:
            days = LONGEST_KEPT_MS // DAY_MS
            reader.problem(f"REBUNO_EXECUTION_TIMEOUT and REBUNO_RETENTION_PERIOD must be {days} days together at most")
        reader.finish()
        return cls(**times, rotation_ms=rotation_ms)

    def retry_delay_ms(self, attempt: int) -> int:
        """How long after a failure attempt `attempt` may start: 2 s before the second, 4 s before the third."""
        return int(min(self.retry_base_ms * 2 ** (attempt - 1), self.retry_max_ms))


def _duration(reader: Reader, name: str, default: str) -> int:
    text = reader.text(name, default)
    try:
        return duration_ms(text)
    except ValueError as error:
        reader.problem(f"{name}: {error}")
        return 1
