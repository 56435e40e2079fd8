"""Requests to the operator's door, as API Gateway passes them on, and callers with one role."""

from typing import Any

from piecework.edge.roles import Caller, Role

VIEWER, OPERATOR = (Caller(role.value, frozenset({role}), is_limited=True) for role in (Role.VIEWER, Role.OPERATOR))
NOBODY = Caller("agent-1", frozenset({Role.AGENT}), is_limited=True)


def an_event(path: str, *, method: str = "GET", token: str = "", query: dict[str, Any] | None = None, **members: Any):
    """A proxy event whose resource passes every path on; a parameter with a list is sent once for each of it."""
    return {
        "resource": "/{proxy+}",
        "path": f"/base{path}",  # a domain's own base path stands before it
        "httpMethod": method,
        "headers": {"Authorization": f"Bearer {token}"} if token else None,
        "pathParameters": {"proxy": path.removeprefix("/")},
        "multiValueQueryStringParameters": query
        and {name: given if isinstance(given, list) else [given] for name, given in query.items()},
        "requestContext": {"requestId": "r"},
        "body": None,
        "isBase64Encoded": False,
        **members,
    }
