"""The settings of the model and its budgets: the reference's environment names, and our own beside them.

Every name may carry a profile as its suffix (`WATTETHERIA_BRAIN_MODEL_FAST`): that name comes first, then the plain
name, then the profile's default.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast, get_args
from urllib.parse import urlsplit

from piecework.errors import SettingsError
from piecework.models.chat import StructuredOutput
from piecework.settings import Reader
from piecework.values import dataclass, field

Kind = Literal["openai-compatible", "bedrock"]

PREFIX: Final = "WATTETHERIA_BRAIN_"
KEY_NAME: Final = PREFIX + "API_KEY"
KINDS: Final[tuple[str, ...]] = get_args(Kind)
NO_TEMPERATURE: Final = "none"
WARMEST: Final = 2.0  # the highest temperature that any endpoint accepts
TOKENS_MEMBERS: Final = ("max_tokens", "max_completion_tokens")

_BASE_URL: Final = re.compile(r"https?://[^/@?#\s]+(/[^?#\s]*)?")
_KEY: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Brain:
    """The settings of one profile."""

    kind: Kind
    model: str
    temperature: float | None
    max_tokens: int  # of one answer
    call_ms: int  # one call
    budget_ms: int  # all calls of one piece
    repairs: int  # further calls after an answer that does not fit
    structured: StructuredOutput = "auto"
    tokens_member: str = TOKENS_MEMBERS[0]
    base_url: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def of_profile(cls, values: Mapping[str, str], profile: str, defaults: Mapping[str, Any]) -> "Brain":
        """Read one profile's settings.

        Raises:
            SettingsError: a model is not configured, or a setting cannot be read; the message names every such setting.
        """
        reader = BrainReader(_for_profile(values, profile))
        kind = cast(Kind, reader.kind())
        is_open = kind == "openai-compatible"
        brain = cls(
            kind=kind,
            model=reader.needed(PREFIX + "MODEL"),
            temperature=reader.temperature(defaults["temperature"]),
            max_tokens=reader.positive(PREFIX + "MAX_TOKENS", defaults["max_tokens"]),
            call_ms=reader.positive(PREFIX + "CALL_MS", defaults["call_ms"]),
            budget_ms=reader.positive(PREFIX + "BUDGET_MS", defaults["budget_ms"]),
            repairs=reader.repairs(defaults["repairs"]),
            structured=cast(StructuredOutput, reader.choice(PREFIX + "STRUCTURED_OUTPUT", get_args(StructuredOutput))),
            tokens_member=reader.choice(PREFIX + "TOKENS_MEMBER", TOKENS_MEMBERS),
            base_url=reader.base_url() if is_open else "",
            key=reader.key() if is_open else "",
        )
        reader.finish()
        return brain


class BrainReader(Reader):
    """Reads the settings that are not a plain text or number."""

    def kind(self) -> str:
        """The kind of provider. Raises SettingsError; like the reference, it is read before the other settings."""
        name = PREFIX + "PROVIDER_KIND"
        if not self.text(name, ""):
            raise SettingsError(f"set {name} to {' or '.join(KINDS)}")
        return self.choice(name, KINDS)

    def temperature(self, default: float) -> float | None:
        text = self.text(PREFIX + "TEMPERATURE", str(default))
        if text.lower() == NO_TEMPERATURE:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0.0 <= value <= WARMEST:
            self._problems.append(f"{PREFIX}TEMPERATURE must be a number from 0 to {WARMEST:g}, or {NO_TEMPERATURE}")
        return value

    def repairs(self, default: int) -> int:
        text = self.text(PREFIX + "REPAIRS", str(default))
        if text.isdecimal():
            return int(text)
        self._problems.append(f"{PREFIX}REPAIRS must be a whole number")
        return default

    def base_url(self) -> str:
        text = self.needed(PREFIX + "BASE_URL")
        if text and not _is_base_url(text):
            self._problems.append(f"{PREFIX}BASE_URL must be an http or https URL without credentials or query")
        return text

    def key(self) -> str:
        name = self.text(PREFIX + "API_KEY_ENV", KEY_NAME)
        key = self.needed(name)
        if key and not _KEY.fullmatch(key):
            self._problems.append(f"{name} holds characters that a key cannot have")
        return key


def _is_base_url(text: str) -> bool:
    try:
        return _BASE_URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # not a port number
        return False


def _for_profile(values: Mapping[str, str], profile: str) -> Mapping[str, str]:
    """The plain values, with the profile's own in their place."""
    suffix = "_" + re.sub(r"[^A-Z0-9]", "_", profile.upper())
    own = {
        name.removesuffix(suffix): value
        for name, value in values.items()
        if name.startswith(PREFIX) and name.endswith(suffix) and value.strip()
    }
    return {**values, **own}
