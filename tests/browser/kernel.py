"""A kernel door beside the console, and an agent that asks people: what the inbox, agents and the policy show.

work = kernel.asks("pay.refund", {"cents": 1})     # an execution that waits for a person about this call
work.status()                                      # "blocked"; "completed" after a grant, "failed" after a denial
"""

import json
import queue
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from local.demo_kernel import Door
from tests.browser.seeds import HOSTILE
from tests.support.machine import Gateways, RunningGateway, wait_until

AGENT: Final = "refund-desk"
POLICY: Final = f"""
rules:
  - id: large-refund
    priority: 10
    when: {{tool_id: "pay.*"}}
    then: {{decision: require_approval, reason: "refunds <b>need</b> a person", timeout: 144h, on_timeout: deny}}
  - {{id: letters, priority: 20, when: {{tool_id: "mail.*"}}, then: {{decision: require_approval, private: true}}}}
  - id: {json.dumps(HOSTILE[:30])}
    priority: 30
    when: {{tool_id: "*onerror*"}}
    then: {{decision: require_approval, reason: {json.dumps(HOSTILE[:30])}}}
  - {{id: never, priority: 40, when: {{tool_id: "rm.*"}}, then: {{decision: deny, reason: not on the list}}}}
default: {{decision: allow}}
"""


@dataclass
class Work:
    """An execution whose call waits for a person."""

    kernel: "KernelDoor"
    id: str
    step_id: str

    def status(self) -> str:
        return str(self.kernel.get(f"/v0/executions/{self.id}")["status"])

    def ended(self) -> str:
        """Its status, once it has ended."""
        wait_until(lambda: self.status() in ("completed", "failed", "cancelled"))
        return self.status()

    def approval(self) -> dict[str, Any]:
        found: dict[str, Any] = self.kernel.get(f"/v0/executions/{self.id}/approvals/{self.step_id}")
        return found


class Agent:
    """Makes the call that each execution's input names, and ends as the person has said."""

    def __init__(self, url: str, agent_id: str) -> None:
        self.agent_id, self._door, self.asked = agent_id, Door(url), queue.Queue[tuple[str, str]]()
        self._sessions: dict[str, str] = {}
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        named = {"agent_id": self.agent_id, "consumer_id": "desk-1"}
        for event, data in self._door.follow("/v0/agents/stream", **named):
            if event == "execution.assigned":
                self._call(data)
            elif event == "approval.resolved":
                self._go_on(data["execution_id"], data["step_id"], is_approved=data["approved"])

    def _go_on(self, execution_id: str, step_id: str, *, is_approved: bool) -> None:
        """A call of its own gives its result at once: it waits for no event that says so."""
        if not is_approved:
            self._intend(execution_id, {"type": "fail", "error": "not allowed"})
            return
        done = {"step_id": step_id, "success": True, "data": "done"}
        self._door.post("/v0/agents/step-result", self._who(execution_id) | done)
        self._intend(execution_id, {"type": "complete", "output": "done"})

    def _call(self, assigned: Mapping[str, Any]) -> None:
        execution_id = assigned["execution_id"]
        self._sessions[execution_id] = assigned["session_id"]
        answer = self._intend(execution_id, {"type": "invoke_tool", "remote": False, **assigned["input"]})
        self.asked.put((execution_id, answer["step_id"]))

    def _intend(self, execution_id: str, intent: Mapping[str, Any]) -> Any:
        return self._door.post("/v0/agents/intent", self._who(execution_id) | {"intent": intent})

    def _who(self, execution_id: str) -> dict[str, Any]:
        return {"execution_id": execution_id, "session_id": self._sessions[execution_id]}


class KernelDoor:
    """The door, over the console's own AWS; agents connect when they are first needed."""

    def __init__(self, running: RunningGateway) -> None:
        self.url, self._http = running.url, running.http
        self._agents: dict[str, Agent] = {}

    def get(self, path: str) -> Any:
        return self._http.get(path).raise_for_status().json()

    def create(self, agent_id: str) -> httpx.Response:
        """The door's answer to a new execution without a call."""
        return self._http.post("/v0/executions", json={"agent_id": agent_id})

    def asks(
        self, tool_id: str = "pay.refund", arguments: object = None, agent_id: str = AGENT, **created: Any
    ) -> Work:
        """An execution whose agent wants to call a tool, and waits for a person."""
        agent = self._agents.get(agent_id) or self._agents.setdefault(agent_id, Agent(self.url, agent_id))
        given = {} if arguments is None else {"arguments": arguments}
        body = {"agent_id": agent_id, "input": {"tool_id": tool_id, **given}, **created}
        execution_id = self._http.post("/v0/executions", json=body).raise_for_status().json()["id"]
        asked, step_id = agent.asked.get(timeout=20)
        assert asked == execution_id
        work = Work(self, execution_id, step_id)
        wait_until(lambda: work.status() == "blocked")
        return work

    def clear(self) -> None:
        """End what waits, so that a test sees its own."""
        for one in self.get("/v0/approvals?limit=200")["approvals"]:
            self._http.post(f"/v0/executions/{one['execution_id']}/cancel")

    @contextmanager
    def runner(self, runner_id: str, tools: list[dict[str, Any]]) -> Iterator[None]:
        """A runner that is connected with these tools."""
        names = ",".join(tool["id"] for tool in tools)
        named = {"runner_id": runner_id, "consumer_id": f"box-{uuid.uuid4().hex[:6]}", "capabilities": names}
        with httpx.stream("GET", f"{self.url}/v0/runners/stream", params=named, timeout=60, trust_env=False) as answer:
            assert answer.status_code == 200
            assert self._http.post(f"/v0/runners/{quote(runner_id, safe='')}/tools", json={"tools": tools}).is_success
            yield


def start_kernel(gateways: Gateways, folder: Path, doors: Mapping[str, str]) -> KernelDoor:
    """A kernel door over the same AWS as the console, by the policy of this folder."""
    parameters = {f"PIECEWORK_PARAM_{name}": value for name, value in doors.items()}
    return KernelDoor(gateways(api="KernelApi", PIECEWORK_POLICY=str(policy_in(folder)), **parameters))


def policy_in(folder: Path) -> Path:
    """The policy's file, written."""
    path = folder / "policy.yaml"
    path.write_text(POLICY, "utf-8")
    return path
