"""Records and messages that other versions of this code read and write too: unknown members are ignored.

Two versions run side by side during every deployment, and after a rollback the older reads rows of the newer.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def known(kind: type[T], members: Mapping[str, Any]) -> T:
    """A dataclass from a record that may have further members.

    Raises:
        TypeError: a member without a default is missing.
    """
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]  # which each dataclass has
    return kind(**{name: members[name] for name in names if name in members})


def record_of(value: object) -> dict[str, Any]:
    """The record of a dataclass; its members are as they are, dataclasses among them too.

    Raises:
        TypeError: it is another kind of value.
    """
    names: tuple[str, ...] | None = getattr(value, "__match_args__", None)
    if names is None:
        raise TypeError(f"{type(value).__name__} has no record")
    return {name: getattr(value, name) for name in names}
