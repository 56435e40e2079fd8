"""Notices about approvals: which there are, and the due time that carries one from its commit to who publishes it.

A notice is a row among the due times, written in the transaction of its event, so that no crash after it loses one. A
sweep hands it to a queue and removes it; so it is published at least once.
"""

from enum import StrEnum
from typing import Final, NamedTuple, Self

from piecework.durable.due import Due
from piecework.errors import BadRequest

NOTICE_DUE: Final = "kernel-notice"
OWNER: Final = "execution_id"  # what messages and the log call the owner of a webhook's delivery
WEBHOOK: Final = "webhook:"


def webhook_of(notify: str) -> str:
    """The webhook that a rule's `notify` names; empty where it is a name on the topic."""
    return notify.removeprefix(WEBHOOK) if notify.startswith(WEBHOOK) else ""


class What(StrEnum):
    """What has happened."""

    NEEDED = "needed"  # a call waits for a person
    ANSWERED = "answered"
    EXPIRED = "expired"  # nobody has answered in time


class Notice(NamedTuple):
    """What has happened to the approval of a step."""

    what: What
    step_id: str

    def due(self, execution_id: str, now_ms: int) -> Due:
        """Its row among the due times."""
        return Due(now_ms, NOTICE_DUE, f"{self.what}.{execution_id}.{self.step_id}")

    @classmethod
    def of(cls, due: Due) -> tuple[str, Self]:
        """The execution and the notice that such a row is about.

        Raises:
            BadRequest: it is another kind of row.
        """
        what, _, rest = due.id.partition(".")
        execution_id, parted, step_id = rest.partition(".")
        if due.kind != NOTICE_DUE or what not in tuple(What) or not parted:
            raise BadRequest("this due time is not a notice")
        return execution_id, cls(What(what), step_id)
