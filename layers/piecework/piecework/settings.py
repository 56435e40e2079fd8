"""Settings of the bundle, read once from the environment; all problems in one message."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Self, cast, get_args

from piecework.errors import SettingsError

PolicyHashMode = Literal["both", "strict", "lenient"]
FetchEvidence = Literal["off", "own", "all"]

TRUE: Final = frozenset({"1", "true", "yes", "on"})


class RuntimeSettings(NamedTuple):
    """The runtime door's settings; `template.yaml` sets each from a parameter."""

    default_executor: str = ""  # empty: task types that no executor lists are refused
    executors_path: str = ""
    strict_task_types: bool = False
    provider_family: str = "piecework"
    model_id: str = "echo-1"
    public_url: str = ""
    result_ttl_seconds: int = 86_400
    policy_hash_mode: PolicyHashMode = "both"
    extra_policy_hashes: str = ""
    empty_reason_codes_on_pass: bool = False
    fetch_evidence: FetchEvidence = "own"
    execute_timeout_ms: int = 29_000  # the edge's time-out of a connection of `/execute`

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: a setting cannot be read; the message names every such setting.
        """
        reader = Reader(env)
        settings = cls(
            default_executor=reader.text("PIECEWORK_DEFAULT_EXECUTOR", ""),
            executors_path=reader.text("PIECEWORK_EXECUTORS_PATH", ""),
            strict_task_types=reader.switch("PIECEWORK_STRICT_TASK_TYPES"),
            provider_family=reader.text("PIECEWORK_PROVIDER_FAMILY", "piecework"),
            model_id=reader.text("PIECEWORK_MODEL_ID", "echo-1"),
            public_url=reader.text("PIECEWORK_RUNTIME_PUBLIC_URL", "").rstrip("/"),
            result_ttl_seconds=reader.positive("PIECEWORK_RESULT_TTL_SECONDS", 86_400),
            policy_hash_mode=cast(
                PolicyHashMode, reader.choice("PIECEWORK_POLICY_HASH_MODE", get_args(PolicyHashMode))
            ),
            extra_policy_hashes=reader.text("PIECEWORK_EXTRA_POLICY_HASHES", ""),
            empty_reason_codes_on_pass=reader.switch("PIECEWORK_EMPTY_REASON_CODES_ON_PASS"),
            fetch_evidence=cast(FetchEvidence, reader.choice("PIECEWORK_FETCH_EVIDENCE", ("own", "off", "all"))),
            execute_timeout_ms=reader.positive("PIECEWORK_EXECUTE_TIMEOUT_MS", 29_000),
        )
        reader.finish()
        return settings


class Parts:
    """What every composition root is: parts that are made from settings when they are first used."""

    def ready(self, *names: str) -> Self:
        """Make these parts now, while the environment starts, instead of in the first request."""
        for name in names:
            getattr(self, name)
        return self


class Reader:
    """Reads typed settings and collects their problems."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._problems: list[str] = []

    def text(self, name: str, default: str) -> str:
        return self._env.get(name, "").strip() or default

    def needed(self, name: str) -> str:
        value = self.text(name, "")
        if not value:
            self._problems.append(f"set {name}")
        return value

    def switch(self, name: str) -> bool:
        return self.text(name, "false").lower() in TRUE

    def positive(self, name: str, default: int) -> int:
        value = self.text(name, str(default))
        if value.isdecimal() and int(value) > 0:
            return int(value)
        self._problems.append(f"{name} must be a positive whole number")
        return default

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name, allowed[0])
        if value in allowed:
            return value
        self._problems.append(f"{name} must be one of {', '.join(allowed)}")
        return allowed[0]

    def problem(self, text: str) -> None:
        self._problems.append(text)

    def finish(self) -> None:
        """Raises SettingsError when a setting had a problem."""
        if self._problems:
            raise SettingsError("; ".join(self._problems))


def needed(env: Mapping[str, str], *names: str) -> list[str]:
    """The values of settings that must be there. Raises SettingsError, which names all that are not."""
    reader = Reader(env)
    values = [reader.needed(name) for name in names]
    reader.finish()
    return values
