"""Whether an event holds what its type says; every change that a test decides or stores in memory is asked."""

from collections.abc import Iterable
from typing import Any, get_type_hints

from piecework.kernel.model.events import Event
from piecework.kernel.model.payloads import PAYLOADS

PLAIN = {str: str, int: int, bool: bool}


def check_payloads(events: Iterable[Event]) -> None:
    """Raises AssertionError for a member that is missing, unknown or of another type."""
    for event in events:
        shape: Any = PAYLOADS[event.type]
        hints, held = get_type_hints(shape), dict(event.payload)
        assert shape.__required_keys__ <= held.keys() <= hints.keys(), event
        wrong = [name for name, value in held.items() if not isinstance(value, PLAIN.get(hints[name], object))]
        assert wrong == [], (event, wrong)
