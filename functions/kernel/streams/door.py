"""What the requests for streams ask: whose stream, for which tools, after which event."""

from typing import Final

from fastapi import Request

from piecework.kernel.edge import checked_id, is_too_long, natural
from piecework.kernel.errors import Invalid
from piecework.kernel.model.hosted import HOSTED

MAX_TOOLS: Final = 1_000  # of one connection; each is a row that is written when it connects


def ids(request: Request, *names: str) -> list[str]:
    """Query parameters that must be there. Raises Invalid."""
    values = [request.query_params.get(name, "") for name in names]
    if not all(values):
        raise Invalid(f"{' and '.join(names)} are required")
    for name, value in zip(names, values, strict=True):
        checked_id(name, value)
        if value == HOSTED and name == "consumer_id":
            raise Invalid(f"the consumer_id {HOSTED} stands for hosted agents")
    return values


def tools(request: Request) -> list[str]:
    """The tools that a runner offers; a name that is too long for any call is left out. Raises Invalid."""
    given = [tool.strip() for tool in request.query_params.get("capabilities", "").split(",")]
    offered = list(dict.fromkeys(tool for tool in given if tool and not is_too_long(tool)))
    if len(offered) > MAX_TOOLS:
        raise Invalid(f"capabilities must name at most {MAX_TOOLS} tools")
    return offered


def after(request: Request) -> int:
    """The last event that a reader of a log knows: what it asks for, else what a browser says when it comes again."""
    asked = request.query_params.get("after_sequence")
    return natural(request.headers.get("last-event-id") if asked is None else asked, 0)
