"""Predicates over the arguments of a call (specification 5.2)."""

from collections.abc import Mapping

from piecework.jsons import Json
from piecework.kernel.policy.patterns import Search
from piecework.values import dataclass


@dataclass(frozen=True, slots=True)
class Predicate:
    """What one argument has to be. An argument that is missing and not required is fine."""

    field: str
    pattern: Search | None = None
    one_of: frozenset[str] | None = None
    min: float | None = None
    max: float | None = None
    max_length: int | None = None
    required: bool = False

    def problem(self, arguments: Mapping[str, Json]) -> str:
        """Why it does not hold, or ""; never shows a value."""
        if self.field not in arguments:
            return f"{self.field} is missing" if self.required else ""
        value = arguments[self.field]
        if self.required and value == "":
            return f"{self.field} is empty"
        problem = self._text_problem(value) or self._number_problem(value)
        return f"{self.field} {problem}" if problem else ""

    def _text_problem(self, value: Json) -> str:
        if self.pattern is None and self.one_of is None and self.max_length is None:
            return ""
        if not isinstance(value, str):
            return "is not text"
        if self.pattern is not None and not self.pattern.finds(value):
            return f"does not match {self.pattern.pattern}"
        if self.one_of is not None and value not in self.one_of:
            return "is not one of those listed"
        if self.max_length is not None and len(value) > self.max_length:
            return f"is longer than {self.max_length} characters"
        return ""

    def _number_problem(self, value: Json) -> str:
        if self.min is None and self.max is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "is not a number"
        if self.min is not None and not value >= self.min:
            return f"is not {self.min} or more"
        if self.max is not None and not value <= self.max:
            return f"is not {self.max} or less"
        return ""
