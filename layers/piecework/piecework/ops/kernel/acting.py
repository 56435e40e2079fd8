"""What people do to executions and agents through the operator's door: the kernel's own commands, in their name.

Each event that follows names them as `ops:` and the name of their token. That is the record: nothing is written twice,
and what the log tells of an answer is what decided it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from piecework.edge.http import Response
from piecework.errors import BadRequest
from piecework.jsons import Json
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.service.bulk import COUNTED, OPEN
from piecework.kernel.wire.views import execution_body, pause_body
from piecework.ops.door import Asked
from piecework.ops.kernel.asking import (
    acting,
    answered,
    check_said_once,
    labels,
    members,
    status_of,
    switch,
    text,
    whole,
)
from piecework.ops.records import reason_in

if TYPE_CHECKING:
    from piecework.kernel.service.service import Kernel

REASON_CHARACTERS: Final = 4_096  # of an answer about a step; the agent reads it


class KernelActs:
    """What people do; callers were checked by the door, and by the kernel where the state decides."""

    def __init__(self, kernel: Callable[[], "Kernel"]) -> None:
        self._kernel = kernel

    def create(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions; a repeat with its key, by the same name, gets the same one.

        Raises:
            BadRequest: the body has no meaning.
            Conflict: the key has created an execution of another agent, input or labels.
            AgentPaused: the agent gets no new executions.
        """
        body = members(asked.request, "agent_id", "input", "labels", "idempotency_key")
        agent_id, by = text(body, "agent_id", is_needed=True), acting(asked.caller).name
        key = text(body, "idempotency_key")
        made = self._kernel().create(agent_id, body.get("input"), labels(body), by, key)
        return answered(execution_body(made))._replace(status=201)

    def answer(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/{execution_id}/approvals/{step_id}: grants or denies a step.

        Raises:
            AlreadyDecided: another answer stands; it says whose, and since when.
            Forbidden: the caller works as the agent that asks.
            NotFound: no such execution.
        """
        body = members(asked.request, "approved", "reason")
        payload: dict[str, Json] = {"step_id": asked.named["step_id"], "approved": switch(body, "approved")}
        if reason := _reason(body):
            payload["reason"] = reason
        kind = "step.approve" if payload["approved"] else "step.deny"
        return self._signalled(asked, kind, payload, is_answer=True)

    def signal(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/{execution_id}/signal; one that answers about a step is an answer.

        Raises:
            Forbidden: the caller may not send such a signal.
            NotFound, Conflict: as `Kernel.signal`.
        """
        body = members(asked.request, "signal_type", "payload")
        return self._signalled(asked, text(body, "signal_type", is_needed=True), body.get("payload"))

    def cancel(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/{execution_id}/cancel. Raises NotFound, or Conflict at its end."""
        members(asked.request)
        ended = self._kernel().cancel(asked.named["execution_id"], acting(asked.caller).name)
        return answered(execution_body(ended))

    def cancel_all(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/cancel: counts; with that count confirmed, some of them end.

        Raises:
            BadRequest: no filter is given, one has no meaning, or one is given more than once.
            CountChanged: another number was confirmed.
        """
        body = members(asked.request, "status", "agent_id", "labels", "cursor", "confirm")
        check_said_once(asked.request)
        which = Filter(status_of(text(body, "status")), text(body, "agent_id"), labels(body))
        if which.status not in (None, *OPEN):
            raise BadRequest(f"status must be one of {', '.join(OPEN)}")
        if which == Filter():
            raise BadRequest("a status, an agent_id or labels must say which executions")
        confirmed, by = whole(body, "confirm", COUNTED * 10), acting(asked.caller).name
        return answered(self._kernel().cancel_all(which, text(body, "cursor"), confirmed, by))

    def again(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/{execution_id}/again; a repeat with its key gets the same one.

        Raises:
            NotFound: no such execution.
            Conflict: it has not ended, or was forgotten.
        """
        body = members(asked.request, "idempotency_key")
        key, by = text(body, "idempotency_key"), acting(asked.caller).name
        made = self._kernel().again(asked.named["execution_id"], key, by)
        return answered(execution_body(made))._replace(status=201)

    def forget(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/executions/{execution_id}/forget; repeat it until it is complete.

        Raises:
            BadRequest: the reason is missing.
            NotFound, Conflict: as `Kernel.forget`.
        """
        reason = reason_in(members(asked.request, "reason"))
        left = self._kernel().forget(asked.named["execution_id"], reason, acting(asked.caller).name)
        return answered(execution_body(left))

    def pause(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/agents/pause. Raises BadRequest without an agent or a reason."""
        body = members(asked.request, "agent_id", "reason")
        agent_id, by = text(body, "agent_id", is_needed=True), acting(asked.caller).name
        paused = self._kernel().pause(agent_id, reason_in(body), by)
        return answered({"agent_id": agent_id, "pause": pause_body(paused)})

    def resume(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/agents/resume. Raises BadRequest without an agent or a reason."""
        body = members(asked.request, "agent_id", "reason")
        agent_id, by = text(body, "agent_id", is_needed=True), acting(asked.caller).name
        paused = self._kernel().resume(agent_id, reason_in(body), by)
        return answered({"agent_id": agent_id, "pause": pause_body(paused)})

    def _signalled(self, asked: Asked, kind: str, payload: Json, *, is_answer: bool = False) -> Response:
        """Nobody answers what is asked by an agent that works, or has lately connected, by a token of his name."""
        also = asked.caller.name if asked.caller.is_limited else ""
        execution_id, caller = asked.named["execution_id"], acting(asked.caller)
        told = self._kernel().signal(execution_id, kind, payload, caller, also, is_answer=is_answer)
        return answered({"status": "ok", **told})


def _reason(body: dict[str, Json]) -> str:
    value = body.get("reason", "")
    if not isinstance(value, str) or len(value) > REASON_CHARACTERS:
        raise BadRequest(f"reason must be a text of at most {REASON_CHARACTERS} characters")
    return value.strip()
