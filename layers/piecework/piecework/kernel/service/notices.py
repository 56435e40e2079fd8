"""Tells people of approvals: one message for each notice, with ids, the tool and the rule, and never with arguments."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.due import Due
from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.notices import Notice, What
from piecework.kernel.model.ports import Approval, Executions
from piecework.values import dataclass

SUBJECT: Final = {
    What.NEEDED: "A call waits for a person",
    What.ANSWERED: "A call was answered",
    What.EXPIRED: "Nobody answered a call in time",
}

Publish = Callable[[str, Mapping[str, Json], Mapping[str, str]], None]  # subject, message, attributes


@dataclass(frozen=True, slots=True)
class Notices:
    """Publishes notices."""

    executions: Executions
    publish: Publish

    def tell(self, due: Due) -> str:
        """Publish the notice that a due time carries: `told`, or `gone` where its execution is forgotten.

        Raises:
            BadRequest: the due time is not a notice.
            PieceworkError: it was not published.
        """
        execution_id, notice = Notice.of(due)
        found = self.executions.approval(execution_id, notice.step_id, with_arguments=False)
        if found is None or found[0].question is None:
            return "gone"
        approval, name = found[0], found[0].question.notify
        self.publish(SUBJECT[notice.what], message_of(notice, approval, due), {"notice": notice.what, "notify": name})
        return "told"


def message_of(notice: Notice, approval: Approval, due: Due) -> dict[str, Json]:
    """What is published; `notice_id` is the same each time."""
    asked, said = approval.question, approval.decided
    until_ms = asked.until_ms if asked else None
    return {
        "notice": notice.what.value,
        "notice_id": hashlib.sha256(due.id.encode()).hexdigest()[:32],
        "notify": asked.notify if asked else "",
        "at": rfc3339(due.at_ms),
        "execution_id": approval.execution_id,
        "step_id": approval.step_id,
        "agent_id": approval.agent_id,
        "tool_id": approval.tool_id,
        "rule_id": asked.rule_id if asked else None,
        "since": rfc3339(approval.since_ms),
        "expires_at": None if until_ms is None else rfc3339(until_ms),
        "on_timeout": (asked.on_timeout or None) if asked else None,
        "approved": said.approved if said and notice.what is not What.NEEDED else None,
        "by": (said.by or None) if said and notice.what is not What.NEEDED else None,
        "summary": summary_of(notice, approval),
    }


def summary_of(notice: Notice, approval: Approval) -> str:
    """One sentence without links; what callers have chosen stands in quotes, escaped."""
    call = f"{json.dumps(approval.tool_id)} of agent {json.dumps(approval.agent_id)}"
    said = approval.decided
    if notice.what is What.NEEDED or said is None:
        return f"{call} waits for a person."
    if notice.what is What.EXPIRED:
        return f"Nobody answered in time about {call}."
    return f"{call} was {'granted' if said.approved else 'denied'}."
