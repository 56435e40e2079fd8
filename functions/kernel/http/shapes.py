"""Shapes of request bodies: types are strict, unknown members are ignored, null is absent.

A right body is read from its shape alone. Pydantic has the same shape as a model (`models`), which explains a wrong
body and describes it in the OpenAPI document; importing it takes longer than all that a right body needs.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from piecework.jsons import Json
from piecework.kernel.edge import ID_BYTES, is_too_long
from piecework.kernel.errors import Invalid

OPTIONAL: Final = (Union, UnionType)  # the one union in a shape is that with None


class Rule(NamedTuple):
    """What a member's values must keep beside their type, and what the document says of them."""

    check: Callable[[str], None] | None = None  # raises ValueError
    most: int | None = None  # items of a list
    description: str = ""  # this and what follows is in the document alone
    longest: int | None = None
    among: tuple[str, ...] = ()

    def apply(self, value: Any) -> None:
        """Raises ValueError."""
        if self.check:
            self.check(value)
        if self.most is not None and len(value) > self.most:
            raise ValueError


def _id(text: str) -> None:
    if is_too_long(text):
        raise ValueError(f"must be at most {ID_BYTES} bytes")


ID_LENGTH: Final = Rule(longest=ID_BYTES)  # the code counts bytes, and elsewhere
Id = Annotated[str, Rule(check=_id, longest=ID_BYTES)]


class Body:
    """A body, or an object inside of one."""

    NEEDED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.given: set[str] = set()  # names of the members that were there

    @classmethod
    @cache
    def members(cls) -> Mapping[str, Any]:
        """The types of its members by their names."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: kind for name, kind in hints.items() if name not in Body.__annotations__}

    @classmethod
    def of(cls, value: Json) -> Self:
        """Raises ValueError where a value has another shape; what is wrong, only its model says."""
        if not isinstance(value, dict):
            raise ValueError
        body = cls()
        for name, kind in cls.members().items():
            if name in value and (value[name] is not None or kind is Any):
                setattr(body, name, _read(value[name], kind))
                body.given.add(name)
        return body

    def check_needed(self) -> None:
        """Raises Invalid naming every needed member that is missing or empty."""
        missing = [name for name in self.NEEDED if getattr(self, name) in (None, "")]
        if missing:
            raise Invalid(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} required")


def _read(value: Json, kind: Any) -> Any:
    """A value as this type. Raises ValueError."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated or origin in OPTIONAL:
        read = _read(value, parts[0])
        for rule in parts[1:] if origin is Annotated else ():
            rule.apply(read)
        return read
    if isinstance(kind, type) and issubclass(kind, Body):
        return kind.of(value)
    if kind is not Any and type(value) is not origin:
        raise ValueError
    if origin is list:
        return [_read(one, parts[0]) for one in value]
    return {name: _read(one, parts[1]) for name, one in value.items()} if origin is dict else value
