"""/v0/executions…: create, list, show, cancel, repeat, signal, read the log (specification sections 2.2 to 2.7)."""

from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kernel.http.documented import answers, asks, may_take, query, takes
from kernel.http.doors import caller_of, door_of
from kernel.http.edge import Line, note
from kernel.http.reading import read
from kernel.http.routes import Routes
from kernel.http.shapes import ID_LENGTH, Body, Id, Rule
from piecework.jsons import Json
from piecework.kernel.edge import checked_id, moment, natural
from piecework.kernel.errors import Invalid
from piecework.kernel.model.events import is_private
from piecework.kernel.model.ports.executions import Filter
from piecework.kernel.model.questions import HIDDEN, SHOWN
from piecework.kernel.model.state import Status
from piecework.kernel.needs import APPROVERS, CANCELS, CLIENTS, FORGETS, READERS, SIGNALS
from piecework.kernel.service.bulk import OPEN
from piecework.kernel.service.forgetting import REASON
from piecework.kernel.wire.frames import event_body
from piecework.kernel.wire.views import approval_body, arguments_body, execution_body, reason_body, row_body

LIST_LIMIT: Final = 50
LIST_MOST: Final = 200
EVENTS_LIMIT: Final = 100
EVENTS_MOST: Final = 1000

REASONS: Final = "reasons"
LIMIT: Final = query(f"a number; {LIST_LIMIT} unless it is one, {LIST_MOST} at most")
EVENTS_PAGE: Final = query(f"a number; {EVENTS_LIMIT} unless it is one, {EVENTS_MOST} at most")
AFTER: Final = query("the last event that is known; anything but a number counts as 0")
STATES: Final = ("waiting", "answered")
STATE: Final = query("which of them; `waiting` without it", {"enum": ["", *STATES]})
CURSOR: Final = query("the next_cursor of the page before")
LISTED: Final = {
    "status": query("only those in this status", {"enum": ["", *(status.value for status in Status)]}),
    "agent_id": query("only those of this agent"),
    "label": query("`key:value`; several must all match", {"type": "array", "items": {"pattern": "^[^:]+:"}}),
    "created_after": query("only those created at this time or later (RFC 3339)"),
    "created_before": query("only those created earlier than this time (RFC 3339)"),
    "include": query(
        f"`reasons`: with `error` and `waiting_for` of each; then {LIST_LIMIT} at most", {"enum": ["", REASONS]}
    ),
    "cursor": CURSOR,
}

PRIVATE_ARGUMENTS: Final = "private arguments"  # what a request's line in the log says of a look at them

routes = Routes()


def _reason(text: str) -> None:
    if len(text) > REASON or not text.strip():
        raise ValueError(f"must say something in at most {REASON} characters")


class CreateBody(Body):
    """A new execution."""

    NEEDED = ("agent_id",)

    agent_id: Annotated[str | None, ID_LENGTH] = None
    input: Any = None
    labels: dict[str, str] | None = None


class AgainBody(Body):
    """How to run an execution again."""

    idempotency_key: Annotated[
        Id | None, Rule(description="the same key leads to the same new execution; without one each request makes one")
    ] = None


class CancelBody(Body):
    """Which open executions to cancel; at least one of the first three."""

    status: Annotated[str, Rule(among=tuple(OPEN))] = ""
    agent_id: Annotated[str, ID_LENGTH] = ""
    labels: Annotated[dict[str, str] | None, Rule(description="all of them must match")] = None
    cursor: Annotated[str, Rule(description="of the answer to the request that counted; without one, now")] = ""
    confirm: Annotated[int | None, Rule(description="the count; without it nothing is cancelled")] = None


class ForgetBody(Body):
    """Why an execution is forgotten."""

    NEEDED = ("reason",)

    reason: Annotated[str | None, Rule(check=_reason, longest=REASON)] = None


class SignalBody(Body):
    """A signal; the payload may be any JSON."""

    NEEDED = ("signal_type",)

    signal_type: str | None = None
    payload: Any = None


@routes.post("/v0/executions", CLIENTS, answers("Execution", 400, status=201), takes(CreateBody))
async def create(request: Request) -> Response:
    """Create an execution, and give it to a connected consumer if there is one."""
    body = await read(CreateBody, request)
    agent_id = checked_id("agent_id", str(body.agent_id))
    door = door_of(request)
    view = await door.call(door.kernel.create, agent_id, body.input, body.labels or {}, caller_of(request).name)
    note(request, execution_id=view.execution.id, agent_id=agent_id)
    return Line(execution_body(view), 201)


@routes.get("/v0/executions", READERS, answers("Executions", 400), asks(**LISTED, limit=LIMIT))
async def listed(request: Request) -> Response:
    """A page of executions, newest first; one that a filter leaves few of may be short or empty, with a cursor."""
    query = request.query_params
    times = [moment(name, query.get(name)) for name in ("created_after", "created_before")]
    which = Filter(_status(query.get("status")), query.get("agent_id", ""), _labels(query.getlist("label")), *times)
    is_with_reasons = _includes_reasons(query.get("include", ""))
    limit = natural(query.get("limit"), LIST_LIMIT, LIST_LIMIT if is_with_reasons else LIST_MOST) or LIST_LIMIT
    door = door_of(request)
    rows, cursor = await door.call(door.kernel.executions, which, query.get("cursor", ""), limit)
    shown = [row_body(row) for row in rows]
    if is_with_reasons:
        found = await door.call(door.kernel.reasons, rows)
        shown = [body | reason_body(found.get(row.id)) for body, row in zip(shown, rows, strict=True)]
    return Line({"executions": shown, "next_cursor": cursor})


@routes.post("/v0/executions/cancel", CANCELS, answers("Cancellable", 400, 409), takes(CancelBody))
async def cancel_all(request: Request) -> Response:
    """Count the open executions that a filter names; with that count confirmed, end at most 100 of them."""
    body = await read(CancelBody, request)
    which = Filter(_open(body.status), body.agent_id and checked_id("agent_id", body.agent_id), body.labels or {})
    if which == Filter():
        raise Invalid("a status, an agent_id or labels must say which executions")
    door, by = door_of(request), caller_of(request).name
    return Line(await door.call(door.kernel.cancel_all, which, body.cursor, body.confirm, by))


@routes.get("/v0/executions/{execution_id}", READERS, answers("Execution", 400, 404))
async def show(request: Request, execution_id: str) -> Response:
    """One execution."""
    door = door_of(request)
    return Line(execution_body(await door.call(door.kernel.get, execution_id)))


@routes.post("/v0/executions/{execution_id}/cancel", CANCELS, answers("Execution", 400, 404, 409))
async def cancel(request: Request, execution_id: str) -> Response:
    """End an execution; a body is not read."""
    door = door_of(request)
    return Line(execution_body(await door.call(door.kernel.cancel, execution_id, caller_of(request).name)))


@routes.post(
    "/v0/executions/{execution_id}/again", CLIENTS, answers("Execution", 400, 404, 409, status=201), may_take(AgainBody)
)
async def again(request: Request, execution_id: str) -> Response:
    """Create an execution with the agent, the input and the labels of one that has ended."""
    body = await read(AgainBody, request, may_be_empty=True)
    door, key, by = door_of(request), body.idempotency_key or "", caller_of(request).name
    view = await door.call(door.kernel.again, execution_id, key, by)
    note(request, again=view.execution.id, agent_id=view.execution.agent_id)
    return Line(execution_body(view), 201)


@routes.post("/v0/executions/{execution_id}/forget", FORGETS, answers("Execution", 400, 404, 409), takes(ForgetBody))
async def forget(request: Request, execution_id: str) -> Response:
    """Erase what an ended execution was about; who asked for it, when and why stays. Repeat it until it is complete."""
    body = await read(ForgetBody, request)
    door, by = door_of(request), caller_of(request).name
    return Line(execution_body(await door.call(door.kernel.forget, execution_id, str(body.reason), by)))


@routes.post("/v0/executions/{execution_id}/signal", SIGNALS, answers("Signalled", 400, 404, 409), takes(SignalBody))
async def signal(request: Request, execution_id: str) -> Response:
    """Send a signal, or answer an approval."""
    body = await read(SignalBody, request)
    door = door_of(request)
    kind, caller = str(body.signal_type), caller_of(request)
    return Line({"status": "ok"} | await door.call(door.kernel.signal, execution_id, kind, body.payload, caller))


@routes.get(
    "/v0/executions/{execution_id}/events",
    READERS,
    answers("Events", 400, 404),
    asks(after_sequence=AFTER, limit=EVENTS_PAGE),
)
async def events(request: Request, execution_id: str) -> Response:
    """A page of an execution's log; empty for one that is unknown. Private arguments are for approvers."""
    query = request.query_params
    after = natural(query.get("after_sequence"), 0)
    limit = natural(query.get("limit"), EVENTS_LIMIT, EVENTS_MOST) or EVENTS_LIMIT
    door = door_of(request)
    page = await door.call(door.kernel.events, execution_id, after, limit)
    latest = page[-1].sequence if page else 0
    to_approver = caller_of(request).may(APPROVERS)
    if to_approver and any(map(is_private, page)):
        note(request, shows=PRIVATE_ARGUMENTS)
    bodies = [event_body(event, to_approver=to_approver) for event in page]
    return Line({"events": bodies, "latest_sequence": latest})


@routes.get("/v0/approvals", READERS, answers("Approvals", 400), asks(state=STATE, cursor=CURSOR, limit=LIMIT))
async def approvals(request: Request) -> Response:
    """Steps that wait for a person, the oldest first; or those that were answered, the newest answer first."""
    query = request.query_params
    limit = natural(query.get("limit"), LIST_LIMIT, LIST_MOST) or LIST_LIMIT
    state = query.get("state") or "waiting"
    if state not in STATES:
        raise Invalid(f"state must be {' or '.join(STATES)}")
    door = door_of(request)
    page = door.kernel.approvals_page
    found, cursor = await door.call(page, query.get("cursor", ""), limit, answered=state == "answered")
    return Line({"approvals": [approval_body(approval) for approval in found], "next_cursor": cursor})


@routes.get("/v0/executions/{execution_id}/approvals/{step_id}", READERS, answers("Approval", 400, 404))
async def approval(request: Request, execution_id: str, step_id: str) -> Response:
    """One step that a person is, or was, asked about; private arguments are for approvers, and each look is logged."""
    door = door_of(request)
    found, step = await door.call(door.kernel.approval, execution_id, step_id)
    if not step.has_arguments:
        return Line(approval_body(found, {"shown": "none"}))
    if step.is_private and not caller_of(request).may(APPROVERS):
        return Line(approval_body(found, dict(HIDDEN)))
    if step.is_private:
        note(request, shows=PRIVATE_ARGUMENTS)
    return Line(approval_body(found, arguments_body(step.arguments, most=SHOWN)))


def _open(text: str) -> Status | None:
    if text and text not in OPEN:
        raise Invalid(f"status must be one of {', '.join(OPEN)}")
    return Status(text) if text else None


def _includes_reasons(text: str) -> bool:
    if text not in ("", REASONS):
        raise Invalid(f"include must be {REASONS}")
    return text == REASONS


def _status(text: str | None) -> Status | None:
    if not text:
        return None
    if text not in list(Status):
        raise Invalid(f"status must be one of {', '.join(Status)}")
    return Status(text)


def _labels(texts: list[str]) -> dict[str, Json]:
    labels: dict[str, Json] = {}
    for text in texts:
        key, parted, value = text.partition(":")
        if not key or not parted:
            raise Invalid("label must read key:value")
        labels[key] = value
    return labels
