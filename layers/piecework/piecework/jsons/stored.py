"""Reading what other versions of this code have stored or sent: members that are not known here are left out.

Two versions run side by side during every deployment, and after a rollback the older one reads what the newer one
wrote.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


def known(kind: type[T], members: Mapping[str, Any]) -> T:
    """A dataclass from a record that may have more members than it.

    Raises:
        TypeError: a member without a default is missing.
    """
    return kind(**{each.name: members[each.name] for each in fields(cast("Any", kind)) if each.name in members})
