"""The edge's own answers: its default responses, and the template's GatewayResponses in their place."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local.gateway.events import Call
from local.gateway.routes import Api, GatewayResponse

Reply = tuple[int, list[tuple[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of failure that the edge itself answers."""

    kind: str
    status: int
    message: str


class Stopped(Exception):
    """The edge answers the request itself."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.kind)
        self.failure = failure


NO_ROUTE: Final = Failure("MISSING_AUTHENTICATION_TOKEN", 403, "Missing Authentication Token")
UNAUTHORIZED: Final = Failure("UNAUTHORIZED", 401, "Unauthorized")
ACCESS_DENIED: Final = Failure("ACCESS_DENIED", 403, "User is not authorized to access this resource")
AUTHORIZER_FAILURE: Final = Failure("AUTHORIZER_FAILURE", 500, "Internal server error")
AUTHORIZER_MALFORMED: Final = Failure("AUTHORIZER_CONFIGURATION_ERROR", 500, "Internal server error")
NOT_SERVED: Final = Failure("LOCAL_ONLY", 403, "")  # this machine's own rule; its text says what to do
TOO_LARGE: Final = Failure("REQUEST_TOO_LARGE", 413, "HTTP content length exceeded 10485760 bytes.")
PAYLOAD_TOO_LARGE: Final = Failure("REQUEST_TOO_LARGE", 413, "Request Too Long")
TIMED_OUT: Final = Failure("INTEGRATION_TIMEOUT", 504, "Endpoint request timed out")
THROTTLED: Final = Failure("DEFAULT_5XX", 500, "Internal server error")  # of a refused invocation
FUNCTION_FAILED: Final = Failure("DEFAULT_5XX", 502, "Internal server error")

DEFAULT_TEMPLATE: Final = '{"message":$context.error.messageString}'


def answer(api: Api, failure: Failure, call: Call) -> Reply:
    """Status, headers and body for a failure, as the API declares them, else AWS's defaults."""
    shared = "DEFAULT_4XX" if failure.status < 500 else "DEFAULT_5XX"
    declared = api.responses.get(failure.kind) or api.responses.get(shared) or GatewayResponse()
    body = _fill(declared.template or DEFAULT_TEMPLATE, _variables(failure, call))
    headers = [("Content-Type", "application/json"), *declared.headers.items()]
    return declared.status or failure.status, headers, body.encode()


def _variables(failure: Failure, call: Call) -> Mapping[str, str]:
    return {
        "$context.error.messageString": json.dumps(failure.message),
        "$context.error.message": failure.message,
        "$context.error.responseType": failure.kind,
        "$context.requestId": call.request_id,
        "$context.httpMethod": call.method,
        "$context.path": call.path,
    }


def _fill(template: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():  # the longest names first, as declared above
        template = template.replace(name, value)
    return template
