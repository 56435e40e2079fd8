"""Reading records and messages of other versions of this code: unknown members are ignored.

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
