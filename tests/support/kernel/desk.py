"""The kernel door as its clients see it: the HTTP application and streams over stores in memory; time is moved."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from kernel.http.api import create_app
from kernel.http.doors import Door
from piecework.edge.roles import parse_roles
from piecework.kernel.model.state import Execution
from piecework.kernel.settings import KernelSettings
from tests.support.http_servers import serving
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage, Line
from tests.support.served import url_run

POLICY = (url_run.FOLDER / "kernel" / "policy.yaml").read_text("utf-8")
GATED = "pay.refund"
ARGUMENTS = {"zip": "8001"}


class Caller:
    """An HTTP client inside the process."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def request(self, method: str, path: str, **named: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://kernel.test") as client:
                return await client.request(method, path, **named)

        return asyncio.run(sent())

    def get(self, path: str, **named: Any) -> httpx.Response:
        return self.request("GET", path, **named)

    def post(self, path: str, **named: Any) -> httpx.Response:
        return self.request("POST", path, **named)

    def put(self, path: str, **named: Any) -> httpx.Response:
        return self.request("PUT", path, **named)

    def delete(self, path: str, **named: Any) -> httpx.Response:
        return self.request("DELETE", path, **named)

    def options(self, path: str, **named: Any) -> httpx.Response:
        return self.request("OPTIONS", path, **named)


@contextmanager
def served(app: Any, **headers: str) -> Iterator[str]:
    """The URL of an app's GETs on a loopback port, asked with these headers."""
    caller = Caller(app)

    def answer(handler: Any) -> None:
        got = caller.get(handler.path, headers=headers)
        handler.send_response(got.status_code)
        handler.send_header("Content-Length", str(len(got.content)))
        handler.end_headers()
        handler.wfile.write(got.content)

    with serving(answer) as server:
        yield server.url


class Desk:
    """A client, and whoever else is needed."""

    def __init__(
        self, settings: KernelSettings | None = None, tokens: tuple[tuple[str, str], ...] = (), **more: Any
    ) -> None:
        self.stage = KernelStage(settings, policy=a_policy(POLICY))
        stage = self.stage
        self.door = Door(
            stage.kernel,
            stage.store.runners,
            stage.store.counters,
            stage.dispatcher,
            connected=lambda: stage.door.connected,
            ready=lambda: None,
            tokens=lambda: tokens,
            clock=stage.clock,
            uses_threads=False,
            **more,
        )
        self.app = create_app(self.door)
        self.client = Caller(self.app)
        self.agents: dict[str, Line] = {}

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.client.get(path, params=query)

    def post(self, path: str, body: Any = None, **named: Any) -> httpx.Response:
        return self.client.post(path, json=body, **named)

    def hear(self, line: Line, is_there: Callable[[], bool]) -> None:
        """Look at a stream, where something should be there."""
        line.look()

    def named(self, name: str) -> str:
        """An agent's, runner's or tool's name as the door knows it."""
        return name

    def create(self, agent_id: str = "triage", **more: Any) -> str:
        answer = self.post("/v0/executions", {"agent_id": self.named(agent_id), **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def show(self, execution_id: str) -> Any:
        return self.get(f"/v0/executions/{execution_id}").json()

    def status(self, execution_id: str) -> str:
        return str(self.show(execution_id)["status"])

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/v0/executions/{execution_id}/events", limit=1000).json()["events"]
        return found

    def types(self, execution_id: str) -> list[str]:
        return [event["type"] for event in self.events(execution_id)]

    def signal(self, execution_id: str, signal_type: str = "go", **more: Any) -> httpx.Response:
        return self.post(f"/v0/executions/{execution_id}/signal", {"signal_type": signal_type, **more})

    def cancel(self, execution_id: str) -> httpx.Response:
        return self.client.post(f"/v0/executions/{execution_id}/cancel")

    def agent(self, agent_id: str = "triage", consumer_id: str = "one") -> Line:
        return self.stage.agent(agent_id, consumer_id)

    def work(self, agent_id: str = "triage", **more: Any) -> "Work":
        """A running execution with its agent connected."""
        agent = self.agents.get(agent_id) or self.agent(agent_id)
        self.agents[agent_id] = agent
        execution_id = self.create(agent_id, **more)
        agent.look()
        [session] = [one for one in agent.of("execution.assigned") if one["execution_id"] == execution_id]
        return Work(self, agent, session)

    def state(self, execution_id: str) -> Execution:
        return self.stage.state(execution_id)


class Signing(Caller):
    """Sends the credential of whose turn it is, and remembers what was asked."""

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.name, self.sent = "", list[tuple[str, str]]()

    def request(self, method: str, path: str, **named: Any) -> httpx.Response:
        self.sent.append((method, path))
        return super().request(method, path, headers={"authorization": f"Bearer secret of {self.name}"}, **named)


class NamedDesk(Desk):
    """A door with a token of each name, which may have roles; the first one's is sent but for `turned`."""

    def __init__(self, names: Sequence[str], roles: str = "", **more: Any) -> None:
        table = parse_roles(roles)
        super().__init__(tokens=tuple((name, f"secret of {name}") for name in names), roles=lambda: table, **more)
        self.client = self.signing = Signing(self.app)
        self.signing.name = names[0]

    @contextmanager
    def turned(self, name: str) -> Iterator[None]:
        """Inside the block it is another one's turn."""
        before, self.signing.name = self.signing.name, name
        yield
        self.signing.name = before

    def agent(self, agent_id: str = "triage", consumer_id: str = "one") -> Line:
        return self.stage.agent(agent_id, consumer_id, self.signing.name)


class Work:
    """What an agent does for one execution."""

    def __init__(self, desk: Desk, agent: Line, session: dict[str, Any]) -> None:
        self.desk, self.agent, self.id, self.session_id = desk, agent, session["execution_id"], session["session_id"]

    @property
    def types(self) -> list[str]:
        return self.desk.types(self.id)

    @property
    def status(self) -> str:
        return self.desk.status(self.id)

    def intend(self, kind: str, **members: Any) -> httpx.Response:
        intent = {"type": kind, **members}
        ids = {"execution_id": self.id, "session_id": self.session_id}
        return self.desk.post("/v0/agents/intent", {**ids, "intent": intent})

    def call(self, tool_id: str = "notes.find", **members: Any) -> httpx.Response:
        return self.intend("invoke_tool", tool_id=self.desk.named(tool_id), **{"arguments": ARGUMENTS, **members})

    def step(self, tool_id: str = "notes.find", **members: Any) -> str:
        answer = self.call(tool_id, **members)
        assert answer.status_code == 200 and answer.json()["accepted"], answer.text
        return str(answer.json()["step_id"])

    def remote(self, **members: Any) -> str:
        return self.step("geo.lookup", remote=True, **members)

    def report(self, step_id: str, success: Any = True, **members: Any) -> httpx.Response:
        ids = {"execution_id": self.id, "session_id": self.session_id, "step_id": step_id}
        return self.desk.post("/v0/agents/step-result", {**ids, "success": success, **members})

    def result(self, job: dict[str, Any], success: Any = True, runner_id: str = "geo-1", **more: Any) -> httpx.Response:
        ids = {"job_id": job["id"], "execution_id": job["execution_id"], "step_id": job["step_id"]}
        return self.desk.post(f"/v0/runners/{self.desk.named(runner_id)}/results", {**ids, "success": success, **more})

    def started(self, step_id: str) -> httpx.Response:
        body = {"execution_id": self.id, "runner_id": self.desk.named("geo-1")}
        return self.desk.post(f"/v0/runners/steps/{step_id}/started", body)

    def job_id(self, step_id: str) -> str:
        job = self.desk.state(self.id).steps[step_id].job
        assert job is not None
        return job.id

    def heard(self, kind: str) -> list[Any]:
        """What the agent's stream has brought of a kind, for this execution."""

        def found() -> list[Any]:
            return [data for data in self.agent.of(kind) if data["execution_id"] == self.id]

        self.desk.hear(self.agent, lambda: bool(found()))
        return found()
