"""/v0/agents…: intents and results of local steps (specification sections 2.9 and 2.10)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field, model_validator
from starlette.responses import Response

from kernel.http.documented import answers, takes
from kernel.http.doors import door_of
from kernel.http.edge import Line
from kernel.http.reading import ID_LENGTH, Lenient, read
from piecework.jsons import Json
from piecework.kernel.model.commands import Intent

INTENTS: Final = ("invoke_tool", "wait", "complete", "fail")
ERROR_BYTES: Final = 4_096

router = APIRouter()


class IntentPart(Lenient):
    """What the agent wants; which members count depends on its type."""

    NEEDED = ("type",)

    type: Annotated[str | None, Field(json_schema_extra={"enum": list(INTENTS)})] = None
    tool_id: Annotated[str, ID_LENGTH] = Field("", description="for invoke_tool, which needs it")
    arguments: Any = None
    output: Any = None
    error: str = Field("", description="for fail, which needs it", json_schema_extra={"maxLength": ERROR_BYTES})
    signal_type: Annotated[str, ID_LENGTH] = Field("", description="for wait, which needs it")
    idempotency_key: str = Field("", description="the same key is answered the same, and nothing is done again")
    remote: bool = False

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: Json) -> Json:
        texts = ("type", "tool_id", "error", "signal_type", "idempotency_key", "remote")
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None or name not in texts}


class IntentBody(Lenient):
    """An intent with the session's credential."""

    NEEDED = ("execution_id", "session_id", "intent")

    execution_id: str | None = None
    session_id: str | None = None
    intent: IntentPart = Field(default_factory=IntentPart)


class StepResultBody(Lenient):
    """How a local step ended."""

    NEEDED = ("execution_id", "session_id", "step_id", "success")

    execution_id: str | None = None
    session_id: str | None = None
    step_id: str | None = None
    success: bool | None = None
    data: Any = None
    error: str = ""


@router.post("/v0/agents/intent", responses=answers("IntentResult", 400, 404, 409), openapi_extra=takes(IntentBody))
async def intent(request: Request) -> Response:
    """Invoke a tool, wait, complete or fail."""
    body = await read(IntentBody, request)
    body.intent.check_needed()
    door = door_of(request)
    answer = await door.call(door.kernel.intent, str(body.execution_id), str(body.session_id), _intent(body.intent))
    return Line(answer)


@router.post("/v0/agents/step-result", responses=answers("Done", 400, 404, 409), openapi_extra=takes(StepResultBody))
async def step_result(request: Request) -> Response:
    """Report a local step."""
    body = await read(StepResultBody, request)
    door = door_of(request)
    ids = (str(body.execution_id), str(body.session_id), str(body.step_id))
    await door.call(door.kernel.step_result, *ids, bool(body.success), body.data, body.error)
    return Line({"status": "ok"})


def _intent(part: IntentPart) -> Intent:
    given = part.model_fields_set
    return Intent(
        type=str(part.type),
        tool_id=part.tool_id,
        arguments=part.arguments,
        has_arguments="arguments" in given,
        output=part.output,
        has_output="output" in given,
        error=part.error,
        signal_type=part.signal_type,
        idempotency_key=part.idempotency_key,
        remote=part.remote,
    )
