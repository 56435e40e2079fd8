"""POST /contracts, GET /contracts/{id}, GET /manifest, GET /healthz; also answers what the door does not serve."""

from piecework.edge.http import Request, Response
from piecework.edge.ports import LambdaContext
from piecework.jsons import Json
from piecework.worker.door import CONTRACT_BYTES, json_body, json_response, serve
from piecework.worker.ids import contract_id
from piecework.worker.wiring import WorkerDoor

door = WorkerDoor().ready("registration", "manifest", "telemetry")

ENDPOINT = {"protocol": "https"}

STATUS = {"new": 201, "same": 200}


def register(request: Request) -> Response:
    """Take a signed contract in, once."""
    kept, body = door.registration.register(json_body(request, CONTRACT_BYTES))
    return json_response(STATUS[kept], body, contract_id=body["contract_id"])


def show(request: Request) -> Response:
    """The contract's hash and state."""
    body = door.registration.show(contract_id(request.path_params["contract_id"]))
    return json_response(200, body, contract_id=body["contract_id"])


def describe(request: Request) -> Response:
    """What this worker can be hired for."""
    return json_response(200, {**door.manifest, "endpoint": {**ENDPOINT, "url": str(door.public_url)}})


def alive(request: Request) -> Response:
    """That the function runs; nothing else is touched."""
    return json_response(200, {"ok": True})


ANSWERS = {"/contracts": register, "/contracts/{contract_id}": show, "/manifest": describe, "/healthz": alive}


def respond(request: Request) -> Response:
    """The answer of one of this function's routes."""
    return ANSWERS[request.resource](request)


def handler(event: dict[str, Json], context: LambdaContext) -> dict[str, Json]:
    """The Lambda entry point."""
    door.public_url.learn(event.get("requestContext") or {})
    return serve(
        "contracts", respond, event, context, door.telemetry, door.rates.check, origin=door.settings.cors_origin
    )
