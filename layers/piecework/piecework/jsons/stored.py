"""Reading records and messages of other versions of this code: unknown members are ignored.

Two versions run side by side during every deployment, and after a rollback the older reads rows of the newer.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


def known(kind: type[T], members: Mapping[str, Any]) -> T:
    """A dataclass from a record that may have further members.

    Raises:
        TypeError: a member without a default is missing.
    """
    return kind(**{each.name: members[each.name] for each in fields(cast("Any", kind)) if each.name in members})
