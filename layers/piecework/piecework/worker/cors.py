"""CORS of the worker door: a seeker in a browser may call it from any origin, unless the operator names one.

The door is public, knows no cookies and is paid for what it does, so an origin decides nothing here. Gateway responses
and the bucket's rules in template.yaml say the same as these headers; a test holds that.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from piecework.edge.http import Response

ANY: Final = "*"
KEPT_SECONDS: Final = 7_200  # a preflight's answer; browsers keep none longer
EXPOSED: Final = (
    *("PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"),
    *("X-Payment-Address", "X-Payment-Amount", "X-Payment-Currency", "X-Payment-Network"),
    *("X-Request-Id", "Retry-After"),
)
ASKED_WITH: Final = (  # stock x402 clients send the name of a response header, too
    *("Content-Type", "X-Contract-ID", "PAYMENT-SIGNATURE", "X-PAYMENT", "Access-Control-Expose-Headers"),
    *("Last-Event-ID", "Cache-Control", "traceparent", "X-Amzn-Trace-Id"),
)


def cors_headers(origin: str) -> Mapping[str, str]:
    """What every answer says to a browser."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": ", ".join(EXPOSED)}


def preflight(methods: Sequence[str]) -> Response:
    """The answer to OPTIONS on a path of the door, beside the headers of every answer."""
    allowed = ", ".join((*methods, "OPTIONS"))
    headers = {
        "Allow": allowed,
        "Access-Control-Allow-Methods": allowed,
        "Access-Control-Allow-Headers": ", ".join(ASKED_WITH),
        "Access-Control-Max-Age": str(KEPT_SECONDS),
    }
    return Response(204, b"", headers)
