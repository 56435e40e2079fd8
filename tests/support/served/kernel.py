"""A kernel door behind a URL, as its cases ask it: a client, and agents and runners at real streams; time is real.

Names of agents, runners and tools get a mark of the test's own, because a door may have other clients.
"""

import contextlib
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx

from piecework.kernel.errors import Conflict, Unauthorized
from piecework.kernel.model.state import Status
from tests.support.kernel.desk import Desk, Work

QUIET_SECONDS = 0.6  # a stream that has brought nothing for so long has brought all there is
PATIENCE_SECONDS = 15.0  # for a frame that must come
HEARING_SECONDS = 3.0  # for a frame that should come
SILENCE = httpx.Timeout(30.0, read=20.0)  # of a stream; three heartbeats and more


class ServedLine:
    """A client at the end of a stream: what it has read so far, in frames."""

    def __init__(self, http: httpx.Client, path: str, named: dict[str, Any]) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.beats: list[int] = []
        self.has_ended = False
        begun = time.monotonic()
        self._answer = http.send(http.build_request("GET", path, params=named, timeout=SILENCE), stream=True)
        assert self._answer.status_code in (200, 204), self._answer.read()
        self._quiet = max(QUIET_SECONDS, 4 * (time.monotonic() - begun))  # longer where the door is far away
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def look(self) -> None:
        """Wait until the stream has brought what there is now."""
        before = -1
        while len(self.seen) != before and not self.has_ended:
            before = len(self.seen)
            self._reader.join(self._quiet)

    def of(self, kind: str) -> list[Any]:
        """The data of all frames of a kind so far."""
        return [data for event, data in self.seen if event == kind]

    def take(self, kind: str) -> Any:
        """The one frame of that kind; it is waited for."""
        self.wait(lambda: bool(self.of(kind)))
        [data] = self.of(kind)
        return data

    def wait(self, until: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a frame has come that makes it true; the caller looks whether it did."""
        ends = time.monotonic() + seconds
        while not until() and time.monotonic() < ends:
            self._reader.join(0.02)

    def close(self) -> None:
        """The client leaves."""
        stream = self._answer.extensions["network_stream"].get_extra_info("socket")
        if stream is not None and not self.has_ended:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        self._reader.join(5)
        self._answer.close()

    def _read(self) -> None:
        event = ""
        try:
            for line in self._answer.iter_lines():
                name, _, text = line.partition(": ")
                if name == ":heartbeat":
                    self.beats.append(now_ms())
                elif name == "event":
                    event = text
                elif name == "data":
                    self.seen.append((event, json.loads(text)))
        except (httpx.HTTPError, OSError):
            pass
        self.has_ended = True


def now_ms() -> int:
    return int(time.time() * 1000)


def who(session: Any) -> dict[str, str]:
    """The ids that an agent shows with what it does."""
    return {"execution_id": session["execution_id"], "session_id": session["session_id"]}


class ServedStage:
    """Agents and runners at the door's streams; time passes by itself."""

    def __init__(self, http: httpx.Client, named: Callable[[str], str]) -> None:
        self._http, self._named = http, named
        self.lines: list[ServedLine] = []
        self.clock = now_ms

    def copy(self) -> "ServedStage":
        """Another process of the door's is whichever takes the next request."""
        return self

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to a request. Raises what the door's own code would."""
        answer = self._http.post(path, json=body)
        if answer.status_code >= 400:
            raise {401: Unauthorized, 409: Conflict}.get(answer.status_code, AssertionError)(answer.text)
        return answer.json() if answer.content else None

    def create(self, given: Any = None, agent_id: str = "triage") -> str:
        return str(self.post("/v0/executions", {"agent_id": self._named(agent_id), "input": given})["id"])

    def intend(self, session: Any, kind: str, **members: Any) -> Any:
        """An intent under an assignment."""
        return self.post("/v0/agents/intent", {**who(session), "intent": {"type": kind, **members}})

    def invoke(self, session: Any, tool_id: str = "geo.lookup", *, remote: bool = False) -> str:
        """A tool call under an assignment; its step's id."""
        given = {"tool_id": self._named(tool_id), "arguments": {"zip": "8001"}, "remote": remote}
        return str(self.intend(session, "invoke_tool", **given)["step_id"])

    def report(self, session: Any, step_id: str, data: Any = None) -> None:
        """The good result of a local step."""
        self.post("/v0/agents/step-result", {**who(session), "step_id": step_id, "success": True, "data": data})

    def finish(self, job: Any, data: Any = None, runner_id: str = "geo-1") -> None:
        """A job's good result."""
        body = {"job_id": job["id"], "execution_id": job["execution_id"], "step_id": job["step_id"]}
        self.post(f"/v0/runners/{self._named(runner_id)}/results", {**body, "success": True, "data": data})

    def started(self, job: Any, runner_id: str = "geo-1") -> None:
        """A runner has begun its job."""
        body = {"execution_id": job["execution_id"], "runner_id": self._named(runner_id)}
        self.post(f"/v0/runners/steps/{job['step_id']}/started", body)

    def signal(self, execution_id: str, signal_type: str, payload: Any) -> None:
        self.post(f"/v0/executions/{execution_id}/signal", {"signal_type": signal_type, "payload": payload})

    def cancel(self, execution_id: str) -> None:
        self.post(f"/v0/executions/{execution_id}/cancel")

    def status(self, execution_id: str) -> Status:
        return Status(self._http.get(f"/v0/executions/{execution_id}").json()["status"])

    def types(self, execution_id: str) -> list[str]:
        """The log, by type."""
        answer = self._http.get(f"/v0/executions/{execution_id}/events", params={"limit": 1000})
        return [event["type"] for event in answer.json()["events"]]

    def agent(self, agent_id: str = "triage", consumer_id: str = "one") -> ServedLine:
        return self._line("/v0/agents/stream", agent_id=self._named(agent_id), consumer_id=consumer_id)

    def runner(self, runner_id: str = "geo-1", consumer_id: str = "one", tools: str = "geo.lookup") -> ServedLine:
        offered = ",".join(self._named(tool) for tool in tools.split(",") if tool)
        given = {"runner_id": self._named(runner_id), "consumer_id": consumer_id, "capabilities": offered}
        return self._line("/v0/runners/stream", **given)

    def monitor(self, execution_id: str, after: int = 0) -> ServedLine:
        return self._line(f"/v0/executions/{execution_id}/stream", after_sequence=after)

    def pass_time(self, seconds: float, until: Callable[[], bool] | None = None) -> float:
        """Let time pass; returns the seconds it took until `until` held."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < (seconds if until is None else seconds + PATIENCE_SECONDS):
            if until is not None and until():
                return passed
            time.sleep(0.05)
        assert until is None or until(), f"not within {passed:.0f} s"
        return seconds

    def _line(self, path: str, **named: Any) -> ServedLine:
        line = ServedLine(self._http, path, named)
        self.lines.append(line)
        line.look()
        return line


class ServedDesk(Desk):
    """A client of the door at the URL, and whoever else is needed."""

    def __init__(self, http: httpx.Client) -> None:
        self.mark = f"c{uuid.uuid4().hex[:8]}"
        self.client: Any = http
        self.stage: Any = ServedStage(http, self.named)
        self.agents: dict[str, Any] = {}
        self.app = SimpleNamespace()

    def named(self, name: str) -> str:
        return f"{self.mark}.{name}"

    def work(self, agent_id: str = "triage", **more: Any) -> Work:
        line = self.agents.setdefault(agent_id, None) or self.agent(agent_id)
        self.agents[agent_id] = line
        execution_id = self.create(agent_id, **more)

        def assigned() -> list[Any]:
            return [one for one in line.of("execution.assigned") if one["execution_id"] == execution_id]

        line.wait(lambda: bool(assigned()))
        [session] = assigned()
        return Work(self, line, session)

    def hear(self, line: Any, is_there: Callable[[], bool]) -> None:
        line.wait(is_there, HEARING_SECONDS)
        line.look()

    def close(self) -> None:
        """Everybody leaves."""
        for line in self.stage.lines:
            line.close()
