"""A mapping of a policy file, read strictly: every key is known, every value of its type, every message says where."""

from collections.abc import Iterable
from typing import Final

from piecework.jsons import Json
from piecework.kernel.policy.reading import PolicyInvalid

MAX_TEXT: Final = 4_096  # characters of an id, a reason, a glob


class Fields:
    """One mapping; `where` reads like `support.yaml: rule refund: when`."""

    def __init__(self, value: Json, where: str, known: Iterable[str]) -> None:
        self.where = where
        if not isinstance(value, dict):
            raise PolicyInvalid(f"{where} must be a mapping")
        self._value = value
        names = sorted(known)
        for key in value:
            if key not in names:
                raise PolicyInvalid(f"{where}: unknown key `{key}`{_meant(key, names)}")

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def invalid(self, key: str, problem: str) -> PolicyInvalid:
        """What to raise about a key."""
        return PolicyInvalid(f"{self.where}: `{key}` {problem}")

    def value(self, key: str) -> Json:
        """Whatever stands there, or None."""
        return self._value.get(key)

    def text(self, key: str) -> str:
        """A text that must not be empty."""
        return self._text(key, self.value(key))

    def texts(self, key: str) -> list[str]:
        """A list of such texts, at least one."""
        return [self._text(key, value) for value in self.items(key)]

    def choices(self, key: str) -> list[str]:
        """A list of texts, at least one; a text may be empty."""
        return [value if value == "" else self._text(key, value) for value in self.items(key)]

    def items(self, key: str) -> list[Json]:
        """A list, at least one long."""
        value = self.value(key)
        if not isinstance(value, list) or not value:
            raise self.invalid(key, "must be a list, and not empty")
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """Texts under names, at least one; a text may be empty."""
        value = self.value(key)
        if not isinstance(value, dict) or not value:
            raise self.invalid(key, "must be a mapping, and not empty")
        for name, text in value.items():
            if not isinstance(text, str):
                raise self.invalid(key, f"holds `{name}`, whose value is not text; put it in quotes")
        return value

    def whole(self, key: str, least: int | None = None) -> int:
        """A whole number, at least so large."""
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            raise self.invalid(key, "must be a whole number" + (f", {least} or more" if least is not None else ""))
        return value

    def number(self, key: str) -> float | None:
        """A number, or None where the key is absent."""
        if key not in self:
            return None
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.invalid(key, "must be a number")
        return value

    def switch(self, key: str) -> bool:
        """True or false; false when it is not there."""
        value = self._value.get(key, False)
        if not isinstance(value, bool):
            raise self.invalid(key, "must be true or false")
        return value

    def _text(self, key: str, value: Json) -> str:
        if not isinstance(value, str):
            raise self.invalid(key, "must be text" + ("" if value is None else "; put it in quotes"))
        if not 0 < len(value) <= MAX_TEXT:
            raise self.invalid(key, f"must have 1 to {MAX_TEXT} characters")
        return value


def _meant(key: str, names: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, names, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(names)}"
