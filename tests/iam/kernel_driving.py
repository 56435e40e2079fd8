"""Uses the kernel door in every way that needs a permission of its own, as clients, agents and runners do."""

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import httpx

from tests.support.machine import wait_until

SECONDS = 60
LARGE = "x" * 400_000  # over what an item keeps
POLICY = b"""
rules:
  - {id: gate, priority: 1, when: {tool_id: pay.refund}, then: {decision: require_approval, notify: people}}
  - {id: mail, priority: 2, when: {tool_id: mail.send}, then: {decision: allow}, rate_limit: {max: 9, window: 1m}}
  - {id: out, priority: 3, when: {tool_id: pay.out}, then: {decision: require_approval, notify: "webhook:desk"}}
default: {decision: allow}
"""
LABEL, LABELS = "x" * 1_000, 200  # together over what an item keeps beside an execution


def drive(url: str, secret: str) -> None:
    """Everything, one after the other."""
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as http:
        look_around(http)
        publish(http)
        finish_an_execution(http)
        replace_what_a_runner_offers(http)
        lose_a_runner_and_its_agent(http)
        leave_executions_to_their_due_times(http)


def look_around(http: httpx.Client) -> None:
    """Lists by each index, a log, tools, numbers."""
    body = {"agent_id": "idle", "input": LARGE, "labels": {"a": "b"}}
    execution_id = http.post("/v0/executions", json=body).json()["id"]
    for path in (
        "/v0/executions?limit=1",
        "/v0/executions?agent_id=idle",
        "/v0/executions?status=pending",
        f"/v0/executions/{execution_id}",
        f"/v0/executions/{execution_id}/events",
        "/v0/approvals",
        "/v0/agents",
        "/v0/runners",
        "/v0/tools",
        "/v0/ready",
        "/metrics",
    ):
        assert http.get(path).status_code == 200, path
    assert http.post(f"/v0/executions/{execution_id}/cancel").status_code == 200
    forgotten = http.post(f"/v0/executions/{execution_id}/forget", json={"reason": "its input is in the bucket"})
    assert forgotten.status_code == 200 and forgotten.json()["forgotten"]["complete"]
    for verb in ("pause", "resume"):
        assert http.post(f"/v0/agents/idle/{verb}", json={"reason": "a look"}).status_code == 200


def publish(http: httpx.Client) -> None:
    """A runner's part of the directory, too long for an item, twice; and its end."""
    for _ in range(2):
        publish_for(http, "drawer")
    assert [tool["id"] for tool in http.get("/v0/tools?prefix=draw").json()] == ["draw.line"]
    assert http.delete("/v0/runners/drawer").status_code == 204


def publish_for(http: httpx.Client, runner_id: str) -> None:
    tools = [{"id": "draw.line", "description": LARGE, "input_schema": {}}]
    assert http.post(f"/v0/runners/{runner_id}/tools", json={"tools": tools}).status_code == 204


def finish_an_execution(http: httpx.Client) -> None:
    """One that waits for its agent; one runner, an approval, a limited tool, a signal, a monitor."""
    execution_id = http.post("/v0/executions", json={"agent_id": "driven", "input": LARGE}).json()["id"]
    runner = {"runner_id": "driver", "consumer_id": "one", "capabilities": "geo.lookup,mail.send"}
    with (
        following(http, "/v0/agents/stream", agent_id="driven", consumer_id="one") as told,
        following(http, "/v0/runners/stream", **runner) as jobs,
    ):
        assigned = next_of(told, "execution.assigned")
        who = {"execution_id": execution_id, "session_id": assigned["session_id"]}
        for tool_id in ("geo.lookup", "mail.send"):
            intend(
                http, who, type="invoke_tool", tool_id=tool_id, arguments=LARGE, remote=True, idempotency_key=tool_id
            )
            report(http, next_of(jobs, "job.assigned"))
            assert next_of(told, "tool.result")["status"] == "succeeded"
        for gated in ("pay.refund", "pay.out"):
            intend(http, who, type="invoke_tool", tool_id=gated)
            signal(http, execution_id, "step.approve", {"step_id": next_approval(http), "approved": False})
            next_of(told, "approval.resolved")
        signal(http, execution_id, "go", LARGE)
        intend(http, who, type="wait", signal_type="go")
        intend(http, who, type="complete", output=LARGE)
        assert "event: execution.completed" in http.get(f"/v0/executions/{execution_id}/stream").text


def replace_what_a_runner_offers(http: httpx.Client) -> None:
    """While it is connected; then it is told to go."""
    with following(http, "/v0/runners/stream", runner_id="painter", consumer_id="one", capabilities="draw.line"):
        answer = http.post("/v0/runners/painter/capabilities", json={"tools": ["draw.arc"]})
        assert answer.status_code == 200, answer.text
        assert http.delete("/v0/runners/painter").status_code == 204


def lose_a_runner_and_its_agent(http: httpx.Client) -> None:
    """Both leave while a job is in the runner's hand; it goes back, the execution waits, what was published goes."""
    publish_for(http, "loser")
    with following(http, "/v0/agents/stream", agent_id="lost", consumer_id="one") as told:
        execution_id = http.post("/v0/executions", json={"agent_id": "lost"}).json()["id"]
        who = {"execution_id": execution_id, "session_id": next_of(told, "execution.assigned")["session_id"]}
        with following(http, "/v0/runners/stream", runner_id="loser", consumer_id="one") as jobs:
            intend(http, who, type="invoke_tool", tool_id="draw.line", arguments=LARGE, remote=True)
            next_of(jobs, "job.assigned")
    wait_until(lambda: http.get("/v0/tools").json() == [], SECONDS)
    wait_until(lambda: http.get(f"/v0/executions/{execution_id}").status_code == 404, SECONDS)


def leave_executions_to_their_due_times(http: httpx.Client) -> None:
    """One that nobody takes and one of a hosted agent that is looked at while it works; both are forgotten."""
    labels = {f"label {number}": LABEL for number in range(LABELS)}
    agents = ("nobody", "sleeper")
    for agent_id in agents:
        assert http.post("/v0/executions", json={"agent_id": agent_id, "labels": labels}).status_code == 201
    wait_until(lambda: not any(listed(http, agent_id) for agent_id in agents), SECONDS)


def listed(http: httpx.Client, agent_id: str) -> bool:
    """Whether an agent has executions; a list settles nothing that is due, as to ask for one execution would."""
    answer = http.get("/v0/executions", params={"agent_id": agent_id})
    return answer.status_code != 200 or bool(answer.json()["executions"])


@contextlib.contextmanager
def following(http: httpx.Client, path: str, **named: str) -> Iterator["queue.Queue[tuple[str, Any]]"]:
    """The events of an open stream, until the block ends."""
    events: queue.Queue[tuple[str, Any]] = queue.Queue()
    with http.stream("GET", path, params=named) as answer:
        assert answer.status_code == 200
        reader = threading.Thread(target=_read, args=(answer, events), daemon=True)
        reader.start()
        yield events
    reader.join(SECONDS)


def _read(answer: httpx.Response, events: "queue.Queue[tuple[str, Any]]") -> None:
    event = ""
    with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
        for line in answer.iter_lines():
            name, _, text = line.partition(": ")
            if name == "event":
                event = text
            elif name == "data":
                events.put((event, json.loads(text)))


def next_of(events: "queue.Queue[tuple[str, Any]]", kind: str) -> Any:
    """The data of the next event of a kind; others are passed over."""
    while True:
        event, data = events.get(timeout=SECONDS)
        if event == kind:
            return data


def next_approval(http: httpx.Client) -> str:
    """The step that waits for a person."""
    [approval] = http.get("/v0/approvals").json()["approvals"]
    return str(approval["step_id"])


def intend(http: httpx.Client, who: dict[str, str], **intent: Any) -> None:
    answer = http.post("/v0/agents/intent", json={**who, "intent": intent})
    assert answer.status_code == 200 and answer.json()["accepted"], answer.text


def report(http: httpx.Client, job: dict[str, Any]) -> None:
    ids = {"job_id": job["id"], "execution_id": job["execution_id"], "step_id": job["step_id"]}
    answer = http.post("/v0/runners/driver/results", json={**ids, "success": True, "data": LARGE})
    assert answer.status_code == 200, answer.text


def signal(http: httpx.Client, execution_id: str, signal_type: str, payload: Any) -> None:
    body = {"signal_type": signal_type, "payload": payload}
    answer = http.post(f"/v0/executions/{execution_id}/signal", json=body)
    assert answer.status_code == 200, answer.text
