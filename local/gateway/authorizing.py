"""Calls a REQUEST authorizer, and reads the policy in its answer.

An authorizer that raises `Unauthorized` gives the caller a 401, as on AWS. Lambda counts that as an error of the
function nevertheless, so it is logged here as one.
"""

import fnmatch
import json
from collections.abc import Mapping
from typing import Any, Final

from local.gateway import edge
from local.gateway.events import Call, Facts, authorizer_event, method_arn
from local.gateway.lambdas.environments import FunctionFailed
from local.gateway.lambdas.pool import Pool, Throttled
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.routes import Api

INVOKE: Final = "execute-api:Invoke"
VERSIONS: Final = ("2008-10-17", "2012-10-17")
ERROR: Final = "{name} ended in an error, which Lambda counts: {message}"


async def authorize(api: Api, call: Call, facts: Facts, pool: Pool) -> dict[str, Any]:
    """The `authorizer` part of the request context.

    Raises:
        Stopped: the authorizer denies the caller, or does not work.
    """
    event = authorizer_event(api, call, facts)
    try:
        raw = await pool.invoke(Invocation(call.request_id, call.trace_id, json.dumps(event).encode()))
    except FunctionFailed as error:
        print(ERROR.format(name=pool.function.name, message=error.message), flush=True)
        denied = error.message == "Unauthorized"
        raise edge.Stopped(edge.UNAUTHORIZED if denied else edge.AUTHORIZER_FAILURE) from error
    except Throttled as error:
        raise edge.Stopped(edge.AUTHORIZER_FAILURE) from error
    try:
        answer = json.loads(raw)
        allowed = _allows(answer["policyDocument"], method_arn(api, call))
        context = {name: _plain(value) for name, value in (answer.get("context") or {}).items()}
        principal = str(answer["principalId"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise edge.Stopped(edge.AUTHORIZER_MALFORMED) from error
    if not allowed:
        raise edge.Stopped(edge.ACCESS_DENIED)
    return {"principalId": principal, "integrationLatency": 0, **context}


def _allows(document: Mapping[str, Any], arn: str) -> bool:
    if document["Version"] not in VERSIONS:
        raise ValueError("a policy document needs a Version")
    about = [statement for statement in document["Statement"] if _covers(statement["Action"], INVOKE)]
    effects = {str(statement["Effect"]) for statement in about if _covers(statement["Resource"], arn)}
    return "Allow" in effects and "Deny" not in effects


def _covers(patterns: str | list[str], name: str) -> bool:
    listed = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in listed)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError("an authorizer's context holds text, numbers and booleans only")
