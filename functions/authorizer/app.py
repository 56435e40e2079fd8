"""Request authorizer: tells who calls, by a `name=secret` token in Basic or Bearer form."""

from typing import Any

from piecework.tokens import authorization_in, caller_of
from piecework.wiring import authorizer_wiring

wiring = authorizer_wiring()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Allow the whole API to a known caller, whose name later becomes part of every key.

    Raises:
        Exception: with the text that API Gateway turns into its 401 answer.
    """
    caller = caller_of(authorization_in(event.get("headers")), wiring.tokens())
    if caller is None:
        raise Exception("Unauthorized")  # the very type and text that API Gateway looks for
    stage_arn = "/".join(event["methodArn"].split("/")[:2])
    statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": f"{stage_arn}/*"}
    return {
        "principalId": caller,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"caller": caller},
    }
