"""/v0/agents…: who is connected; intents and results of local steps (specification sections 2.9 and 2.10)."""

from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kernel.http.documented import answers, asks, query, takes
from kernel.http.doors import caller_of, door_of
from kernel.http.edge import Line
from kernel.http.reading import read
from kernel.http.routes import Routes
from kernel.http.shapes import ID_LENGTH, Body, Rule
from piecework.kernel.edge import checked_id, natural
from piecework.kernel.model.commands import Intent
from piecework.kernel.needs import AGENTS, OPERATORS, READERS
from piecework.kernel.wire.views import agent_body, pause_body

INTENTS: Final = ("invoke_tool", "wait", "complete", "fail")
ERROR_BYTES: Final = 4_096
OWNERS: Final = 20  # agents or runners on a page: each costs requests of its own
OWNERS_MOST: Final = 50
OWNERS_LIMIT: Final = query(f"a number; {OWNERS} unless it is one, {OWNERS_MOST} at most; a page may hold fewer")
CURSOR: Final = query("the next_cursor of the page before")

REASON_CHARACTERS: Final = 500  # as everywhere else that operators say why

routes = Routes()


def bounded_reason(text: str) -> None:
    """Raises ValueError."""
    if len(text) > REASON_CHARACTERS or not text.strip():
        raise ValueError(f"must say something in at most {REASON_CHARACTERS} characters")


class PauseBody(Body):
    """Why an agent is paused or resumed."""

    NEEDED = ("reason",)

    reason: Annotated[str | None, Rule(check=bounded_reason, longest=REASON_CHARACTERS)] = None


class IntentPart(Body):
    """What the agent wants; which members count depends on its type."""

    NEEDED = ("type",)

    type: Annotated[str | None, Rule(among=INTENTS)] = None
    tool_id: Annotated[str, ID_LENGTH, Rule(description="for invoke_tool, which needs it")] = ""
    arguments: Any = None
    output: Any = None
    error: Annotated[str, Rule(description="for fail, which needs it", longest=ERROR_BYTES)] = ""
    signal_type: Annotated[str, ID_LENGTH, Rule(description="for wait, which needs it")] = ""
    idempotency_key: Annotated[
        str, Rule(description="the same key is answered the same, and nothing is done again")
    ] = ""
    remote: bool = False


class IntentBody(Body):
    """An intent with the session's credential."""

    NEEDED = ("execution_id", "session_id", "intent")

    execution_id: str | None = None
    session_id: str | None = None
    intent: IntentPart = IntentPart()


class StepResultBody(Body):
    """How a local step ended."""

    NEEDED = ("execution_id", "session_id", "step_id", "success")

    execution_id: str | None = None
    session_id: str | None = None
    step_id: str | None = None
    success: bool | None = None
    data: Any = None
    error: str = ""


@routes.get("/v0/agents", READERS, answers("Agents", 400), asks(cursor=CURSOR, limit=OWNERS_LIMIT))
async def agents(request: Request) -> Response:
    """A page of agents by id: who is connected for each, what they work on, how many executions wait."""
    door, query = door_of(request), request.query_params
    page, cursor = await door.call(door.connected().agents, query.get("cursor", ""), owners_limit(query.get("limit")))
    return Line({"agents": [agent_body(shown) for shown in page], "next_cursor": cursor})


@routes.post("/v0/agents/{agent_id}/pause", OPERATORS, answers("Paused", 400), takes(PauseBody))
async def pause(request: Request, agent_id: str) -> Response:
    """Give an agent no new executions until it is resumed: creates get 503, what runs goes on."""
    body = await read(PauseBody, request)
    door, by = door_of(request), caller_of(request).name
    paused = await door.call(door.kernel.pause, checked_id("agent_id", agent_id), str(body.reason), by)
    return Line({"agent_id": agent_id, "pause": pause_body(paused)})


@routes.post("/v0/agents/{agent_id}/resume", OPERATORS, answers("Paused", 400), takes(PauseBody))
async def resume(request: Request, agent_id: str) -> Response:
    """Give an agent executions again; what waits is given out."""
    body = await read(PauseBody, request)
    door, by = door_of(request), caller_of(request).name
    paused = await door.call(door.kernel.resume, checked_id("agent_id", agent_id), str(body.reason), by)
    return Line({"agent_id": agent_id, "pause": pause_body(paused)})


@routes.post("/v0/agents/intent", AGENTS, answers("IntentResult", 400, 404, 409), takes(IntentBody))
async def intent(request: Request) -> Response:
    """Invoke a tool, wait, complete or fail."""
    body = await read(IntentBody, request)
    body.intent.check_needed()
    door = door_of(request)
    ids = (str(body.execution_id), str(body.session_id))
    answer = await door.call(door.kernel.intent, *ids, _intent(body.intent), caller_of(request).name)
    return Line(answer)


@routes.post("/v0/agents/step-result", AGENTS, answers("Done", 400, 404, 409), takes(StepResultBody))
async def step_result(request: Request) -> Response:
    """Report a local step."""
    body = await read(StepResultBody, request)
    door = door_of(request)
    ids = (str(body.execution_id), str(body.session_id), str(body.step_id))
    by = caller_of(request).name
    await door.call(door.kernel.step_result, *ids, bool(body.success), body.data, body.error, by)
    return Line({"status": "ok"})


def owners_limit(text: str | None) -> int:
    """How many agents or runners a page may hold."""
    return natural(text, OWNERS, OWNERS_MOST) or OWNERS


def _intent(part: IntentPart) -> Intent:
    return Intent(
        type=str(part.type),
        tool_id=part.tool_id,
        arguments=part.arguments,
        has_arguments="arguments" in part.given,
        output=part.output,
        has_output="output" in part.given,
        error=part.error,
        signal_type=part.signal_type,
        idempotency_key=part.idempotency_key,
        remote=part.remote,
    )
