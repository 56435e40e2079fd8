"""Work for other executions: its errors are theirs, and end neither a stream nor a command that has been stored.

An execution that this version cannot read, as after a rollback, waits for one that can; it holds up no other.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from piecework.errors import Internal, PieceworkError, Unavailable
from piecework.kernel.errors import Internal as KernelInternal

LOG: Final = logging.getLogger(__name__)


@contextmanager
def met(what: str) -> Iterator[None]:
    """Go on after an error that concerns one execution; an unexpected one is logged with `what` it prevented.

    Raises:
        Unavailable: the store is out of reach, for all others as well.
    """
    try:
        yield
    except Unavailable:
        raise
    except (Internal, KernelInternal):  # a bug that was translated on its way here
        LOG.exception(what)
    except PieceworkError:
        pass
    except Exception:  # a bug that one execution meets must not end the work on the others
        LOG.exception(what)
