"""What the OpenAPI document says of a route, as plain dicts: arguments of the FastAPI route that it is made of.

The document is made by `python -m local.openapi`, never at a start. What all routes have in common is added there.
"""

from typing import Any, Final

from starlette.responses import PlainTextResponse

from kernel.http.reading import BODY_BYTES, MAX_DEPTH
from kernel.http.shapes import Body

Described = dict[str, Any]

TEXT: Final[Described] = {"type": "string"}


def answers(schema: str, *refusals: int, status: int = 200, **headers: Described) -> Described:
    """The name of its answer's schema, further headers, and the statuses of its refusals."""
    answer: Described = {"description": schema, "content": _json(schema), "headers": headers}
    return {"status_code": status, "responses": {status: answer, **{refusal: {} for refusal in refusals}}}


def done(*refusals: int) -> Described:
    """That its answer has no body, and the statuses of its refusals."""
    return {"status_code": 204, "responses": {204: {"description": "done"}, **{refusal: {} for refusal in refusals}}}


def answers_text(description: str) -> Described:
    """That its answer is plain text."""
    return {"response_class": PlainTextResponse, "response_description": description}


def takes(body: type[Body]) -> Described:
    """That it reads a body."""
    about = f"At most {BODY_BYTES} bytes and {MAX_DEPTH} levels, of any Content-Type."
    return {"openapi_extra": {"requestBody": {"required": True, "description": about, "content": _json(body.__name__)}}}


def may_take(body: type[Body]) -> Described:
    """That it reads a body if there is one."""
    described = takes(body)
    described["openapi_extra"]["requestBody"]["required"] = False
    return described


def asks(**queries: Described) -> Described:
    """That it reads parameters of its query."""
    return {"openapi_extra": parameters(**queries)}


def parameters(**queries: Described) -> Described:
    """The parameters of a query."""
    return {
        "parameters": [{"name": name, "in": "query", "required": False, **query} for name, query in queries.items()]
    }


def query(description: str, schema: Described = TEXT) -> Described:
    """A parameter of the query."""
    return {"description": description, "schema": schema}


def _json(schema: str) -> Described:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
