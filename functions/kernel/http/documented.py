"""What the OpenAPI document says of a route, as plain dicts: FastAPI makes nothing of them before it is asked for it.

The document is made by `python -m local.openapi`, never at a start. What all routes have in common is added there.
"""

from typing import Any, Final

from pydantic import BaseModel

from kernel.http.reading import BODY_BYTES, MAX_DEPTH

Described = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

TEXT: Final[Described] = {"type": "string"}


def answers(schema: str, *refusals: int, status: int = 200, **headers: Described) -> Responses:
    """`responses` of a route: the name of its answer's schema, further headers, and the statuses of its refusals."""
    answer: Described = {"description": schema, "content": _json(schema), "headers": headers}
    return {status: answer, **{refusal: {} for refusal in refusals}}


def done(*refusals: int) -> Responses:
    """`responses` of a route whose answer has no body."""
    return {204: {"description": "done"}, **{refusal: {} for refusal in refusals}}


def takes(model: type[BaseModel]) -> Described:
    """`openapi_extra` of a route that reads a body."""
    about = f"At most {BODY_BYTES} bytes and {MAX_DEPTH} levels, of any Content-Type."
    return {"requestBody": {"required": True, "description": about, "content": _json(model.__name__)}}


def asks(**queries: Described) -> Described:
    """`openapi_extra` of a route that reads parameters of its query."""
    return {
        "parameters": [{"name": name, "in": "query", "required": False, **query} for name, query in queries.items()]
    }


def query(description: str, schema: Described = TEXT) -> Described:
    """A parameter of the query."""
    return {"description": description, "schema": schema}


def _json(schema: str) -> Described:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
