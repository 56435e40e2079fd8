"""Tells people of approvals: one message for each notice, with ids, the tool and the rule, and never with arguments."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final

from piecework.durable.due import Due
from piecework.jsons import Json, canonical
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.notices import Notice, What, webhook_of
from piecework.kernel.model.ports.executions import Approval, Executions
from piecework.values import dataclass
from piecework.webhooks.deliveries import Delivery

SUBJECT: Final = {
    What.NEEDED: "A call waits for a person",
    What.ANSWERED: "A call was answered",
    What.EXPIRED: "Nobody answered a call in time",
}

Publish = Callable[[str, Mapping[str, Json], Mapping[str, str]], None]  # subject, message, attributes
Announce = Callable[[Delivery], None]  # has it sent; again is harmless


@dataclass(frozen=True, slots=True)
class Notices:
    """Publishes notices on a topic, or hands them to the sender of webhooks."""

    executions: Executions
    publish: Publish | None  # None: this stack has no topic
    announce: Announce | None = None  # None: this stack sends no webhooks

    def tell(self, due: Due) -> str:
        """Publish the notice that a due time carries, or hand it over, as the call's rule said.

        Returns what came of it: `told`, `handed_over`, `gone` where its execution is forgotten, or `to_nobody` where
        this stack does not have what the rule names.

        Raises:
            BadRequest: the due time is not a notice.
            PieceworkError: it was not published, and not handed over.
        """
        execution_id, notice = Notice.of(due)
        found = self.executions.approval(execution_id, notice.step_id, with_arguments=False)
        if found is None or found[0].question is None:
            return "gone"
        approval, name = found[0], found[0].question.notify
        message = message_of(notice, approval, due)
        if webhook := webhook_of(name):
            return self._hand_over(execution_id, message, webhook)
        if self.publish is None:
            return "to_nobody"
        self.publish(SUBJECT[notice.what], message, {"notice": notice.what, "notify": name})
        return "told"

    def _hand_over(self, execution_id: str, message: Mapping[str, Json], webhook: str) -> str:
        if self.announce is None:
            return "to_nobody"
        event_id, body = str(message["notice_id"]), canonical(dict(message))
        self.announce(Delivery(execution_id, event_id, url="", body=body, name=webhook))
        return "handed_over"


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
