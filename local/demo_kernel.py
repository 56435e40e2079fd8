"""An agent `demo` and a runner, which `make run` connects to the kernel door so that executions can be done.

Both use the public API as any client would. The agent counts the words of `input.text` by its own tool, lets the runner
shout them, waits for the signal that `input.wait_for` names if it names one, and completes. The runner `demo-runner`
offers `demo.shout`, and `pay.refund` for the hosted agent `refund_desk`.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import httpx

from local.preflight import roles_of
from piecework.edge.roles import Role, parse_roles
from piecework.edge.tokens import parse_tokens

AGENT: Final = "demo"
RUNNER: Final = "demo-runner"
LOCAL_TOOL: Final = "demo.count"
SHOUT: Final = "demo.shout"
REFUND: Final = "pay.refund"
TOKENS: Final = "PIECEWORK_KERNEL_TOKENS"
SILENCE_SECONDS: Final = 20.0  # of a stream; three heartbeats and more
PAUSE_SECONDS: Final = 1.0  # before a broken stream is opened again
BREATH_SECONDS: Final = 0.1  # before an ended stream is opened again; else two demos would replace each other at once
ANSWER_SECONDS: Final = 300.0  # for a tool or a signal
REQUEST: Final = httpx.Timeout(30.0)
STREAM: Final = httpx.Timeout(30.0, read=SILENCE_SECONDS)


class Ended(Exception):
    """The execution does not accept further intents."""


class Door:
    """The kernel door."""

    def __init__(self, url: str, secret: str = "") -> None:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=REQUEST, trust_env=False)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request and return its answer. Raises httpx.HTTPError."""
        answer = self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def follow(self, path: str, **named: str) -> Iterator[tuple[str, Any]]:
        """The events of a stream and their data, without end."""
        while True:
            try:
                yield from self._frames(path, named)
                time.sleep(BREATH_SECONDS)
            except httpx.HTTPError:
                time.sleep(PAUSE_SECONDS)

    def _frames(self, path: str, named: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        with self._http.stream("GET", path, params=named, timeout=STREAM) as answer:
            answer.raise_for_status()
            event = ""
            for line in answer.iter_lines():
                name, _, text = line.partition(": ")
                if name == "event":
                    event = text
                elif name == "data":
                    yield event, json.loads(text)


class DemoAgent:
    """One connection of the agent; each execution runs in a thread of its own."""

    def __init__(self, door: Door, consumer_id: str = "demo-1") -> None:
        self._door, self._consumer_id = door, consumer_id
        self._news: dict[str, queue.Queue[tuple[str, Any]]] = {}

    def run(self) -> None:
        """Work without end."""
        for event, data in self._door.follow("/v0/agents/stream", agent_id=AGENT, consumer_id=self._consumer_id):
            if event == "execution.assigned":
                self._news[data["execution_id"]] = queue.Queue()
                threading.Thread(target=self._handle, args=(data,), daemon=True).start()
            elif data.get("execution_id") in self._news:
                self._news[data["execution_id"]].put((event, data))

    def _handle(self, assigned: Mapping[str, Any]) -> None:
        try:
            self._intend(assigned, "complete", output=self._work(assigned))
        except Ended as end:
            print(f"demo agent: {assigned['execution_id']}: {end}", flush=True)
        except ValueError as refusal:
            self._intend(assigned, "fail", error=str(refusal))
        except httpx.HTTPError as error:
            print(f"demo agent: {assigned['execution_id']}: {error!r}", flush=True)
        finally:
            self._news.pop(assigned["execution_id"], None)

    def _work(self, assigned: Mapping[str, Any]) -> dict[str, Any]:
        given = assigned["input"] if isinstance(assigned["input"], dict) else {}
        text = given.get("text", "input.text is empty")
        if not isinstance(text, str):
            raise ValueError("input.text must be a text")
        step_id = self._invoke(assigned, LOCAL_TOOL, {"text": text}, remote=False)
        self._report(assigned, step_id, {"words": len(text.split())})
        counted = self._result(assigned, step_id)
        shouted = self._result(assigned, self._invoke(assigned, SHOUT, {"text": text}, remote=True))
        output = {**counted, **shouted}
        if wanted := given.get("wait_for"):
            self._intend(assigned, "wait", signal_type=str(wanted))
            output["signal"] = self._await(assigned, "signal.received", "signal_type", wanted)["payload"]
        return output

    def _invoke(self, assigned: Mapping[str, Any], tool_id: str, arguments: Any, *, remote: bool) -> str:
        answer = self._intend(assigned, "invoke_tool", tool_id=tool_id, arguments=arguments, remote=remote)
        if not answer["accepted"]:
            raise ValueError(f"{tool_id}: {answer['error']}")
        return str(answer["step_id"])

    def _result(self, assigned: Mapping[str, Any], step_id: str) -> dict[str, Any]:
        told = self._await(assigned, "tool.result", "step_id", step_id)
        if told["status"] != "succeeded":
            raise ValueError(told.get("error") or "the tool failed")
        return dict(told["result"])

    def _await(self, assigned: Mapping[str, Any], event: str, name: str, value: Any) -> dict[str, Any]:
        ends = time.monotonic() + ANSWER_SECONDS
        while (left := ends - time.monotonic()) > 0:
            try:
                kind, data = self._news[assigned["execution_id"]].get(timeout=left)
            except queue.Empty:
                break
            if kind == "execution.cancelled":
                raise Ended(data.get("reason", "cancelled"))
            if kind == event and data.get(name) == value:
                return dict(data)
        raise Ended(f"no {event} in {ANSWER_SECONDS:.0f} s")

    def _report(self, assigned: Mapping[str, Any], step_id: str, data: Any) -> None:
        self._door.post("/v0/agents/step-result", {**_who(assigned), "step_id": step_id, "success": True, "data": data})

    def _intend(self, assigned: Mapping[str, Any], kind: str, **members: Any) -> dict[str, Any]:
        return dict(self._door.post("/v0/agents/intent", {**_who(assigned), "intent": {"type": kind, **members}}))


class DemoRunner:
    """One connection of the runner."""

    def __init__(self, door: Door, consumer_id: str = "demo-runner-1") -> None:
        self._door, self._consumer_id = door, consumer_id
        self._tools: dict[str, Callable[[Any], Any]] = {SHOUT: shout, REFUND: refund}

    def run(self) -> None:
        """Work without end."""
        named = {"runner_id": RUNNER, "consumer_id": self._consumer_id, "capabilities": ",".join(self._tools)}
        for event, job in self._door.follow("/v0/runners/stream", **named):
            if event == "job.assigned":
                try:
                    self._do(job)
                except httpx.HTTPError as error:
                    print(f"demo runner: {job['id']}: {error!r}", flush=True)

    def _do(self, job: Mapping[str, Any]) -> None:
        about = {"execution_id": job["execution_id"], "runner_id": RUNNER}
        self._door.post(f"/v0/runners/steps/{job['step_id']}/started", about)
        body = {"job_id": job["id"], "execution_id": job["execution_id"], "step_id": job["step_id"]}
        try:
            body |= {"success": True, "data": self._tools[job["tool_id"]](job["arguments"] or {})}
        except (KeyError, TypeError, AttributeError) as error:
            body |= {"success": False, "error": f"arguments: {error!r}"}
        self._door.post(f"/v0/runners/{RUNNER}/results", {**body, "consumer_id": self._consumer_id})


def shout(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The tool `demo.shout`."""
    return {"shouted": arguments["text"].upper() + "!"}


def refund(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The tool `pay.refund`; no money moves."""
    return {"receipt": f"demo-{arguments['order']}", "cents": arguments["cents"]}


def _who(assigned: Mapping[str, Any]) -> dict[str, str]:
    return {"execution_id": assigned["execution_id"], "session_id": assigned["session_id"]}


def secret_of(role: Role, env: Mapping[str, str]) -> str | None:
    """The secret of the first token with this role; empty at an open door, None if no token has the role."""
    tokens, table = parse_tokens(env.get(TOKENS, "")), parse_roles(roles_of(env))
    if not tokens:
        return ""
    return next((secret for name, secret in tokens if role in table.caller(name).roles), None)


def main() -> int:
    """Connect both, and stay until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the kernel door's base URL")
    url, threads = parser.parse_args().url, []
    for role, worker in ((Role.AGENT, DemoAgent), (Role.RUNNER, DemoRunner)):
        secret = secret_of(role, os.environ)
        if secret is None:
            print(f"the demo's {role} is not connected: no token has the role {role}", flush=True)
        else:
            threads.append(threading.Thread(target=worker(Door(url, secret)).run, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
