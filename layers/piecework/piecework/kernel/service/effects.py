"""What follows a commit: effects in a fixed order. The commit stands whatever comes of them, and so does the next one.

The composition root lists them. A process that dies in between leaves the rest undone:

| effect | what is left undone is done by |
|---|---|
| send hints | every stream, which looks through its outbox by itself |
| wake a hosted agent | the due time of its execution |
| dispatch | the next result or heartbeat of a runner, and the due time of the execution |
| offer | the next heartbeat of an agent's stream, and the due time of the execution |
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from piecework.errors import PieceworkError
from piecework.kernel.model.changes import Change

Effect = Callable[[Change], bool | None]  # True when it has moved the execution on by another commit

LOG: Final = logging.getLogger(__name__)


def follow(change: Change, effects: Iterable[Effect]) -> bool:
    """Run all effects of a stored change; one that fails is logged. True when one has moved the execution on."""
    has_moved = False
    for effect in effects:
        try:
            has_moved = bool(effect(change)) or has_moved
        except PieceworkError as error:  # a store is out of reach
            LOG.warning("%s did not follow a commit: %s", _name(effect), error)
        except Exception:  # the change is stored: a bug in what follows must not answer that it failed
            LOG.exception("%s did not follow a commit", _name(effect))
    return has_moved


def _name(effect: Effect) -> str:
    return getattr(effect, "__name__", "an effect")
