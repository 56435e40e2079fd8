"""Request authorizer: names the caller by a `name=secret` token in Basic or Bearer form."""

from typing import Any, Final

from piecework.edge.tokens import authorization_in, caller_of
from piecework.runtime.wiring import RuntimeDoor

STRANGER: Final = "unknown"  # the principal of a Deny; it never becomes part of a key

door = RuntimeDoor().ready("tokens")


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Allow the whole API to a known caller, whose name later becomes part of every key; deny it to others.

    A Deny becomes the gateway response ACCESS_DENIED, which carries the 401. API Gateway also turns an exception with
    the text `Unauthorized` into a 401. But Lambda counts that as an error of the function, so a few wrong passwords
    would ring the alarm, and the alarm stops deployments.
    """
    caller = caller_of(authorization_in(event.get("headers")), door.tokens())
    if caller is None:
        return {"principalId": STRANGER, "policyDocument": _policy("Deny", event["methodArn"])}
    policy = _policy("Allow", event["methodArn"])
    return {"principalId": caller, "policyDocument": policy, "context": {"caller": caller}}


def _policy(effect: str, method_arn: str) -> dict[str, Any]:
    stage_arn = "/".join(method_arn.split("/")[:2])
    statement = {"Effect": effect, "Action": "execute-api:Invoke", "Resource": f"{stage_arn}/*"}
    return {"Version": "2012-10-17", "Statement": [statement]}
