"""GET /stream/{task_id} as server-sent events: FastAPI under the Lambda Web Adapter, or under uvicorn locally."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from anyio import CancelScope
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from piecework.errors import PieceworkError
from piecework.jsons import Json, loads
from piecework.worker.cors import cors_headers
from piecework.worker.door import error_response
from piecework.worker.ids import new_request_id, task_id
from piecework.worker.rates import source_of
from piecework.worker.stream.readers import Seat
from piecework.worker.stream.streams import HEARTBEAT, Batch, frames, reader_of
from piecework.worker.wiring import WorkerDoor

HOLD_SECONDS = 20.0  # a piecewise answer waits so long for something new; the edge gives up at 29 s
OPEN_SECONDS = 810.0  # a stream ends itself before Lambda's 15 minutes, and is resumed
HEARTBEAT_SECONDS = 15.0
GAPS = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between looks while nothing is new
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream; charset=utf-8"

door = WorkerDoor().ready("streams", "readers", "rates", "clock", "telemetry")  # requests share them from the start on
app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)


class Reading:
    """One reader's place in a stream."""

    def __init__(self, contract: str, task: str, last_id: str) -> None:
        self._contract, self._task, self._last_id = contract, task, last_id
        self._seats: tuple[Seat, ...] = ()

    async def begin(self) -> Batch:
        """What is there; a reader that has to wait for more takes a seat first, and keeps it while it is served."""
        batch = await self.next()
        door.rates.count("", self._contract)  # known by now: what strangers guess counts for their address alone
        if batch.ended or (batch.events and not door.stays_open):
            return batch
        self._seats = await run_in_threadpool(door.readers.enter, self._contract)
        if door.stays_open:
            return batch
        try:
            return await self.wait(HOLD_SECONDS)
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Give the seat back, also where the reader has left and everything is being cancelled."""
        held, self._seats = self._seats, ()
        with CancelScope(shield=True), suppress(PieceworkError):  # it lapses by itself
            await run_in_threadpool(door.readers.leave, held)

    async def next(self) -> Batch:
        """What is new since the last look."""
        batch = await run_in_threadpool(door.streams.after, self._contract, self._task, self._last_id)
        if batch.events:
            self._last_id = str(batch.events[-1].seq)
        return batch

    async def wait(self, seconds: float) -> Batch:
        """What is new, as soon as there is something, or nothing when time is up."""
        loop = asyncio.get_running_loop()
        deadline, place = loop.time() + seconds, 0
        batch = await self.next()
        while not batch.events and not batch.ended and (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(GAPS[place], left))
            place = min(place + 1, len(GAPS) - 1)
            batch = await self.next()
        return batch


@app.get("/healthz")
async def healthz() -> dict[str, bool]:
    """That the function runs; the adapter asks before the first request."""
    return {"ok": True}


@app.get("/stream/{task}")
@app.get("/{base:path}/stream/{task}")  # behind a domain's base path
async def stream(request: Request, task: str) -> Response:
    """The task's events after the last one seen, 204 when it has ended without another one."""
    headers = {**HEADERS, **cors_headers(door.settings.cors_origin), "X-Request-Id": new_request_id()}
    try:
        reading = Reading(*await run_in_threadpool(_asked, request, task))
        batch = await reading.begin()
    except PieceworkError as error:
        refused = error_response(error)
        door.telemetry.outcome("stream", {"status": refused.status, **refused.facts}, {})
        own = {"Content-Type": "application/json; charset=utf-8", **refused.headers, **headers}
        return Response(refused.body, refused.status, own)
    door.telemetry.outcome("stream", {"status": 200, "events": len(batch.events), "ended": batch.ended}, {})
    if batch.ended and not batch.events:
        return Response(status_code=204, headers=headers)
    if door.stays_open and not batch.ended:
        return StreamingResponse(_open(reading, batch), headers=headers, media_type=MEDIA_TYPE)
    content = b"".join(frames(batch.events, first=True)) or HEARTBEAT
    return Response(content, headers=headers, media_type=MEDIA_TYPE)


async def _open(reading: Reading, batch: Batch) -> AsyncIterator[bytes]:
    """Events as they come, with a comment where nothing does, until the task or our time ends."""
    loop = asyncio.get_running_loop()
    ends, first = loop.time() + OPEN_SECONDS, True
    try:
        while True:
            yield b"".join(frames(batch.events, first=first)) or HEARTBEAT
            first = first and not batch.events
            if batch.ended or loop.time() >= ends:
                return
            batch = await reading.wait(min(HEARTBEAT_SECONDS, ends - loop.time()))
    except PieceworkError:
        return  # the reader resumes
    finally:
        await reading.leave()


def _asked(request: Request, task: str) -> tuple[str, str, str]:
    """Contract, task and last event that a request names; checked, and counted for its address, before any look-up."""
    context = _context(request)
    door.public_url.learn(context)
    door.rates.count(source_of(context), "")
    named = task_id(task)
    contract_ids = request.headers.getlist("x-contract-id")
    token = request.query_params.get("st", "")
    contract = reader_of(contract_ids, token, named, door.stream_tokens(), door.clock())
    last_id = request.headers.get("last-event-id") or request.query_params.get("after", "0")
    return contract, named, last_id


def _context(request: Request) -> dict[str, Json]:
    """What the edge says about a request, as it tells the adapter; empty without an edge."""
    context = loads(request.headers.get("x-amzn-request-context", "{}"))
    return context if isinstance(context, dict) else {}
