"""A web application that shows the request it got."""

import asyncio
import json

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route


async def shown(request):
    if "hold" in request.query_params:
        return await held(request)
    body = await request.body()
    return JSONResponse(
        {
            "method": request.method,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": body.decode("latin-1"),
            "context": json.loads(request.headers["x-amzn-request-context"]),
        }
    )


async def held(request):
    async def parts():
        yield b"open\n"
        await asyncio.Event().wait()

    return StreamingResponse(parts())


async def ready(request):
    return PlainTextResponse("ready")


app = Starlette(routes=[Route("/web", shown, methods=["GET", "POST", "DELETE"]), Route("/", ready)])
