"""The operator's door over a kernel in the test's own process: its functions, with their tables of routes."""

import asyncio
import base64
import importlib
import json
import sys
from typing import Any, NamedTuple
from unittest import mock

from piecework.edge.roles import Role
from piecework.ops.kernel.wiring import OpsKernelDoor
from piecework.ops.kernel_routes import EVALUATE
from tests.support.kernel.desk import NamedDesk
from tests.support.ops.hooks import FakeKernelHooks
from tests.support.ops.requests import an_event
from tests.support.ops.streams import Reader
from tests.support.runtime.runtime_handlers import Context, Lines

ENV = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
ROLES = ",".join(f"{role}={role}" for role in Role)
NAMES = (*(role.value for role in Role), "bob", "nameless")
ROLES_AND_BOB = f"{ROLES},bob=approver"


class Answer(NamedTuple):
    """What a caller gets."""

    status: int
    body: Any
    headers: dict[str, str]


class KernelOps:
    """Callers of the operator's door, each with the token of his name; beside it the kernel door's own callers."""

    def __init__(self, roles: str = ROLES_AND_BOB, desk: Any = None, names: tuple[str, ...] = NAMES) -> None:
        self.desk = desk or NamedDesk(("shop", "triage-1"), "")
        self.lines = Lines()
        tokens = ",".join(f"{name}=secret-of-{name}" for name in names)
        self.door = OpsKernelDoor({**ENV, "PIECEWORK_OPS_TOKENS": tokens, "PIECEWORK_OPS_TOKEN_ROLES": roles})
        self.hooks = FakeKernelHooks(self.desk.stage.clock)
        vars(self.door).update(
            kernel=self.desk.stage.door,
            telemetry=self.lines,
            _hook_rows=self.hooks,
        )
        self.reading, self.writing, self.streaming = (
            _loaded(self.door, name) for name in ("reading", "writing", "streams")
        )

    def ask(self, name: str, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        """A request by the token of a name, as the API hands it to one of the functions."""
        if path.endswith("/stream") and method == "GET":
            return asyncio.run(self._streamed(name, path, query))
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer secret-of-{name}"} if name else {})
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        event = an_event(path, method=method, headers=headers, body=text, query=query or None)
        function = self.writing if method == "POST" and path != EVALUATE else self.reading
        answer = function.handler(event, Context())
        raw = answer["body"]
        text = base64.b64decode(raw).decode() if answer["isBase64Encoded"] else raw
        return Answer(answer["statusCode"], json.loads(text), answer["headers"])

    async def _streamed(self, name: str, path: str, query: dict[str, Any]) -> Answer:
        reader = await Reader(self.streaming.app, path, name, **query).open()
        text = await reader.block() if reader.status != 200 else ""
        await reader.leave()
        return Answer(reader.status, json.loads(text or "null"), reader.headers)

    def get(self, path: str, name: str = "viewer", **query: Any) -> Any:
        """The body of an answer that is right."""
        answer = self.ask(name, "GET", path, **query)
        assert answer.status == 200, answer
        return answer.body


def _loaded(door: OpsKernelDoor, name: str) -> Any:
    """A module of its own, whose door is this one."""
    module = f"ops.kernel_{name}.app"
    sys.modules.pop(module, None)
    with mock.patch("piecework.ops.kernel.wiring.OpsKernelDoor", return_value=door):
        made = importlib.import_module(module)
    sys.modules.pop(module)
    return made
