"""Functions that are web applications under the Lambda Web Adapter: one process, whose answers are streamed."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import httpx
from starlette.responses import Response, StreamingResponse

from local.die_with_parent import dying_with_parent
from local.gateway import edge
from local.gateway.events import Call
from local.gateway.held_port import HOST, held_port
from local.gateway.routes import Function

WRAPPER: Final = "AWS_LAMBDA_EXEC_WRAPPER"
READINESS_PATH: Final = "AWS_LWA_READINESS_CHECK_PATH"
PORT: Final = "AWS_LWA_PORT"
READY_SECONDS: Final = 30
READY_POLL_SECONDS: Final = 0.05
STREAM_SECONDS: Final = 900.0  # the longest answer, which may be silent all the time
UNLIMITED: Final = httpx.Limits(max_connections=None, max_keepalive_connections=20)  # every stream holds one
HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"})
CONTEXT: Final = "x-amzn-request-context"  # the adapter's own header; a client's header of this name is dropped
OWN: Final = HOP_BY_HOP | {"content-length", "date", "server"}


class WebApp:
    """The process of one function, started with the first request, and again after a crash."""

    def __init__(self, function: Function, variables: Mapping[str, str], log: IO[Any] | None = None) -> None:
        self._function = function
        self._variables = variables
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._is_ready = False
        self._url = ""
        self._held = contextlib.ExitStack()  # its port
        self._http = httpx.AsyncClient(timeout=STREAM_SECONDS, limits=UNLIMITED, trust_env=False)

    async def open(self) -> None:
        """Start the process ahead of the first request."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()

    async def close(self) -> None:
        """End the process."""
        await self._http.aclose()
        self._held.close()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def forward(self, call: Call, context: Mapping[str, Any]) -> Response:
        """Forward a request with the edge's facts about it; streams the answer's body back.

        Raises:
            edge.Stopped: the application does not answer.
        """
        await self.open()
        query = f"?{call.query}" if call.query else ""
        dropped = HOP_BY_HOP | {CONTEXT}
        sent = [*(pair for pair in call.headers if pair[0].lower() not in dropped), (CONTEXT, json.dumps(context))]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent]
        url = f"{self._url}{call.path}{query}"
        request = self._http.build_request(call.method, url, headers=headers, content=call.body or None)
        try:
            await self._until_ready()
            answer = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise edge.Stopped(edge.FUNCTION_FAILED) from error
        response = StreamingResponse(_body(answer), answer.status_code)
        response.raw_headers = [
            (name.lower(), value) for name, value in answer.headers.raw if name.decode("latin-1").lower() not in OWN
        ]
        return response

    async def _start(self) -> None:
        self._held.close()
        port = self._held.enter_context(held_port())
        self._url, self._is_ready = f"http://{HOST}:{port}", False
        folders = os.pathsep.join((str(Path(sys.executable).parent), self._variables.get("PATH", os.defpath)))
        script = self._function.folder / self._function.handler
        self._process = await asyncio.create_subprocess_exec(
            *dying_with_parent("exec", "/bin/bash", str(script)),
            env={**self._variables, "PATH": folders, PORT: str(port)},
            cwd=self._function.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    async def _until_ready(self) -> None:
        if self._is_ready:  # checked once per process, as the adapter does
            return
        path = self._variables.get(READINESS_PATH, "/")
        deadline = asyncio.get_running_loop().time() + READY_SECONDS
        while True:
            try:
                await self._http.get(f"{self._url}{path}")
                self._is_ready = True
                return
            except httpx.ConnectError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(READY_POLL_SECONDS)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()
