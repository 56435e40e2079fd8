"""Pauses of doors and executors at the operator's door; what they do is in `durable/pauses.py`."""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.pauses import DOORS, MOST_PAUSES, SCOPE, SEEN_MS, Pause, Pauses
from piecework.edge.roles import Caller
from piecework.edge.tokens import ANONYMOUS
from piecework.errors import BadRequest
from piecework.jsons import Json
from piecework.ops.access import READS, WRITES, require
from piecework.ops.records import Records, reason_in
from piecework.ops.verbs import only

SCOPES: Final = f"scope must be {', '.join(f'door:{door}' for door in DOORS)}, or executor: and an executor's name"


class Pausing:
    """Begins, ends and lists pauses; a beginning and an end are recorded before they are done."""

    def __init__(self, records: Records, pauses: Pauses, clock: Callable[[], int]) -> None:
        self._records, self._pauses, self._clock = records, pauses, clock

    def pause(self, caller: Caller, body: Mapping[str, Json]) -> dict[str, Json]:
        """Give a door or an executor no new work; a pause that holds stays as it is.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, the scope has no meaning, or too many pauses hold.
        """
        require(caller, WRITES)
        scope = _scope(body)

        def act() -> dict[str, Json]:
            wanted = Pause(scope, self._clock(), caller.name or ANONYMOUS, reason_in(body))
            holds = self._pauses.begin(wanted)
            if holds is None:
                raise BadRequest(f"{MOST_PAUSES} pauses hold already; resume something first")
            return {"pause": holds._asdict(), "is_new": holds == wanted, "seen_within_ms": SEEN_MS}

        return self._records.done(caller, "pause", scope, body, act)

    def resume(self, caller: Caller, body: Mapping[str, Json]) -> dict[str, Json]:
        """Give a door or an executor work again.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, or the scope has no meaning.
        """
        require(caller, WRITES)
        scope = _scope(body)

        def act() -> dict[str, Json]:
            return {"scope": scope, "was_paused": self._pauses.end(scope), "seen_within_ms": SEEN_MS}

        return self._records.done(caller, "resume", scope, body, act)

    def listed(self, caller: Caller) -> dict[str, Json]:
        """The pauses that hold, the oldest first. Raises Forbidden."""
        require(caller, READS)
        return {"items": [pause._asdict() for pause in self._pauses.all()]}


def _scope(body: Mapping[str, Json]) -> str:
    only(body, "scope", "reason")
    scope = body.get("scope")
    if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
        raise BadRequest(SCOPES)
    return scope
