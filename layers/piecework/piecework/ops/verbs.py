"""What an operator may do: send a webhook again; look at dead letters, and put them back into their queue.

    | crash after                            | what stands                                                       |
    |----------------------------------------|-------------------------------------------------------------------|
    | the delivery was made pending again    | pending, and no message: sending again asks for the same try      |
    | a dead letter was put into its queue   | it is in both: the queue's function drops what is stale or done   |

Dead letters are put back a few at a time. What fails again becomes a dead letter again, five tries later.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from piecework.edge.roles import Caller
from piecework.errors import BadRequest, NotFound, PieceworkError
from piecework.jsons import Json
from piecework.ops.access import WRITES, require
from piecework.ops.records import Records
from piecework.worker.errors import WorkerError
from piecework.worker.ids import contract_id as checked_contract_id

MOST_LETTERS: Final = 10  # of one call, as many as SQS gives at once
BODY_CHARACTERS: Final = 2_000  # of a letter that is looked at; ours hold ids and are far shorter
OPENS_A_TASK: Final = re.compile(r'("task_id"\s*:\s*")[^"]*')  # at the worker door, together with its contract's id


class Letter(NamedTuple):
    """A dead letter, and the receipt that removes it."""

    message_id: str
    body: str
    sent_at_ms: int
    receives: int
    receipt: str


class Letters(Protocol):
    """A queue of dead letters and the queue that they came from."""

    def take(self, most: int, *, hidden_seconds: int) -> list[Letter]:
        """Some letters, which nobody else sees for that time. Raises PieceworkError."""

    def put_back(self, letter: Letter) -> None:
        """Send it to its queue again, and remove it here. Raises PieceworkError."""


class Hooks(Protocol):
    """Webhooks that a door keeps, by whose they are: a contract's, an execution's."""

    def resend(self, owner_id: str, event_id: str) -> str:
        """Have a delivery tried again; what it was: `pending`, `delivered`, `given_up`, or `stopped` (nothing is done).

        Raises:
            NotFound: it is not kept.
        """


class Verbs:
    """What an operator may do; each write is recorded."""

    def __init__(
        self,
        records: Records,
        letters: Mapping[str, Letters],
        hooks: Callable[[], Hooks],
        notices: Callable[[], Hooks],
    ) -> None:
        """`hooks` are those of hired work, `notices` those about approvals."""
        self._records, self._letters, self._hooks, self._notices = records, letters, hooks, notices

    def resend(self, caller: Caller, contract_id: str, event_id: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Have a webhook sent again, from the first try on.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, or the body has another member.
            NotFound: the webhook does not exist.
        """
        only(body, "reason")

        def act() -> dict[str, Json]:
            return _resent(self._hooks().resend(contract_of(contract_id), event_id))

        return self._records.done(caller, "webhook.resend", f"{contract_id}/{event_id}", body, act)

    def resend_notice(
        self, caller: Caller, execution_id: str, event_id: str, body: Mapping[str, Json]
    ) -> dict[str, Json]:
        """The same for a webhook about an approval. Raises as `resend`."""
        only(body, "reason")

        def act() -> dict[str, Json]:
            return _resent(self._notices().resend(execution_id, event_id))

        return self._records.done(caller, "approval_webhook.resend", f"{execution_id}/{event_id}", body, act)

    def look(self, caller: Caller, name: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Some dead letters of a queue, which stay where they are; not recorded, as nothing changes.

        Raises:
            Forbidden: the caller may not write: a look counts as a receipt in SQS.
            NotFound: this stack does not have the queue.
        """
        require(caller, WRITES)
        only(body)
        letters = self._of(name).take(MOST_LETTERS, hidden_seconds=0)
        return {"letters": [_shown(letter) for letter in letters]}

    def redrive(self, caller: Caller, name: str, body: Mapping[str, Json]) -> dict[str, Json]:
        """Put at most `count` dead letters back; `uncertain` are those that may be in their queue, here, or in both.

        Raises:
            Forbidden: the caller may not write.
            BadRequest: the reason is missing, or the count has no meaning.
            NotFound: this stack does not have the queue.
        """
        only(body, "reason", "count")
        count = body.get("count", MOST_LETTERS)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_LETTERS:
            raise BadRequest(f"count must be a whole number from 1 to {MOST_LETTERS}")
        require(caller, WRITES)
        letters = self._of(name)

        def act() -> dict[str, Json]:
            taken = letters.take(count, hidden_seconds=30)
            uncertain = [letter.message_id for letter in taken if not _put_back(letters, letter)]
            return {"taken": len(taken), "put_back": len(taken) - len(uncertain), "uncertain": [*uncertain]}

        return self._records.done(caller, "dead_letters.redrive", name, body, act)

    def _of(self, name: str) -> Letters:
        if name not in self._letters:
            raise NotFound(f"this stack does not have that queue; it has {', '.join(self._letters) or 'none'}")
        return self._letters[name]


def _resent(was: str) -> dict[str, Json]:
    return {"was": was, "is_asked_for": was != "stopped"}


def _put_back(letters: Letters, letter: Letter) -> bool:
    try:
        letters.put_back(letter)
    except PieceworkError:
        return False
    return True


def contract_of(text: str) -> str:
    """The text, if it is a contract's id. Raises NotFound."""
    try:
        return checked_contract_id(text)
    except WorkerError:
        raise NotFound("this is not a contract's id") from None


def only(body: Mapping[str, Json], *allowed: str) -> None:
    """Raises BadRequest, with its name, for a member of a body that means nothing here."""
    if unknown := [name for name in body if name not in allowed]:
        raise BadRequest(f"the member {unknown[0][:40]!r} is not known here; send {', '.join(allowed) or 'none'}")


def _shown(letter: Letter) -> dict[str, Json]:
    return {
        "message_id": letter.message_id,
        "body": OPENS_A_TASK.sub(r"\1…", letter.body)[:BODY_CHARACTERS],
        "sent_at_ms": letter.sent_at_ms,
        "receives": letter.receives,
    }
