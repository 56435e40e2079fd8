"""Executions, events and tools as clients see them (specification sections 2 and 4.1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.questions import HIDDEN, beginning

if TYPE_CHECKING:
    from piecework.kernel.connected.lists import AgentShown, ConsumerShown, LinkShown, RunnerShown, Some
    from piecework.kernel.model.changes import Decided
    from piecework.kernel.model.ports.agents import Consumer
    from piecework.kernel.model.ports.executions import Approval, Details, Summary
    from piecework.kernel.model.ports.runners import RunnerConnection, ToolEntry
    from piecework.kernel.model.questions import Question
    from piecework.kernel.model.state import Forgotten, Pause
    from piecework.kernel.service.reasons import Reason

TOOLS_SHOWN: Final = 25  # of a connection; a page of 100 connections fits an answer, whatever the ids hold


def execution_body(view: Details) -> dict[str, Json]:
    """An execution; every member is always there."""
    execution = view.execution
    return {
        "id": execution.id,
        "status": execution.status.value,
        "agent_id": execution.agent_id,
        "labels": dict(execution.labels),
        "input": view.input,
        "output": view.output,
        "error": view.error,
        "waiting_for": view.waiting_for,
        "again_of": view.again_of or None,
        "forgotten": _forgotten_body(execution.forgotten) if execution.forgotten else None,
        "created_at": rfc3339(execution.created_at_ms),
        "updated_at": rfc3339(execution.updated_at_ms),
    }


def _forgotten_body(forgotten: Forgotten) -> dict[str, Json]:
    return {
        "at": rfc3339(forgotten.at_ms),
        "by": forgotten.by or None,
        "reason": forgotten.reason,
        "complete": forgotten.complete,
    }


def row_body(row: Summary) -> dict[str, Json]:
    """An execution in a list."""
    return {
        "id": row.id,
        "status": row.status.value,
        "agent_id": row.agent_id,
        "labels": dict(row.labels),
        "created_at": rfc3339(row.created_at_ms),
        "updated_at": rfc3339(row.updated_at_ms),
    }


def reason_body(reason: Reason | None) -> dict[str, Json]:
    """What an execution in a list waits for, and why it has failed; null for one that is gone meanwhile."""
    return {"error": reason and reason.error, "waiting_for": reason and reason.waiting_for}


def agent_body(agent: AgentShown) -> dict[str, Json]:
    """An agent in a list; `since` is null where earlier code has opened the connection."""
    return {
        "agent_id": agent.id,
        "consumers": [_consumer_body(shown) for shown in agent.consumers],
        "more_consumers": agent.more_consumers,
        "waiting": agent.waiting,
        "more_waiting": agent.more_waiting,
        "hosted": _work_body(agent.hosted) if agent.hosted else None,
        "pause": pause_body(agent.pause),
    }


def pause_body(pause: Pause | None) -> dict[str, Json] | None:
    """An agent's last pause; it holds while nobody has resumed it."""
    if pause is None:
        return None
    return {
        "at": rfc3339(pause.at_ms),
        "by": pause.by or None,
        "reason": pause.reason,
        "resumed_at": None if pause.resumed_ms is None else rfc3339(pause.resumed_ms),
        "resumed_by": pause.resumed_by or None,
        "resumed_reason": pause.resumed_reason or None,
    }


def runner_body(runner: RunnerShown) -> dict[str, Json]:
    """A runner in a list."""
    return {
        "runner_id": runner.id,
        "connections": [_link_body(shown) for shown in runner.links],
        "more_connections": runner.more_links,
    }


def _consumer_body(shown: ConsumerShown) -> dict[str, Json]:
    return _connection_body(shown.consumer.consumer_id, shown.is_connected, shown.consumer) | _work_body(shown.work)


def _link_body(shown: LinkShown) -> dict[str, Json]:
    linked = shown.linked
    job: dict[str, Json] = {
        "id": linked.job_id,
        "execution_id": linked.execution_id,
        "step_id": shown.step.id if shown.step else None,
        "tool_id": shown.step.tool_id if shown.step else None,
    }
    return {
        **_connection_body(linked.connection.consumer_id, shown.is_connected, linked),
        "job": job if linked.job_id else None,
        "tools": sorted(linked.tools)[:TOOLS_SHOWN],
        "more_tools": len(linked.tools) > TOOLS_SHOWN,
    }


def _connection_body(consumer_id: str, is_connected: bool, found: Consumer | RunnerConnection) -> dict[str, Json]:
    return {
        "consumer_id": consumer_id,
        "connected": is_connected,
        "since": rfc3339(found.since_ms) if found.since_ms else None,
        "lease_until": rfc3339(found.lease_until_ms),
    }


def _work_body(work: Some) -> dict[str, Json]:
    return {"executions": list(work.shown), "more_executions": work.more}


def tool_body(tool: ToolEntry) -> dict[str, Json]:
    """A tool in the directory."""
    return {
        "id": tool.id,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "runner_id": tool.runner_id,
        "registered_at": rfc3339(tool.registered_at_ms),
    }


def approval_body(approval: Approval, arguments: Json = None) -> dict[str, Json]:
    """A step that a person is, or was, asked about; by itself it shows the beginning of its arguments."""
    asked, said = approval.question, approval.decided
    until_ms = asked.until_ms if asked else None
    return {
        "execution_id": approval.execution_id,
        "agent_id": approval.agent_id,
        "step_id": approval.step_id,
        "tool_id": approval.tool_id,
        "since": rfc3339(approval.since_ms),
        "state": "waiting" if approval.waits else "answered" if said else "cancelled",
        "rule_id": asked.rule_id if asked else None,
        "reason": asked.reason if asked else None,
        "asked_by": (asked.by or None) if asked else None,
        "expires_at": None if until_ms is None else rfc3339(until_ms),
        "on_timeout": (asked.on_timeout or None) if asked else None,
        "arguments": arguments or (_arguments_listed(asked) if asked else {"shown": "unknown"}),
        "answer": _answer_body(said) if said else None,
    }


def arguments_body(arguments: Json, *, most: int) -> dict[str, Json]:
    """A call's arguments, whole or their beginning as text."""
    return _shown(*beginning(arguments, most))


def _arguments_listed(asked: Question) -> dict[str, Json]:
    if asked.is_private:
        return dict(HIDDEN)
    return _shown(asked.arguments, asked.length) if asked.length else {"shown": "none"}


def _shown(text: str, length: int) -> dict[str, Json]:
    if len(text) < length:
        return {"shown": "beginning", "text": text, "length": length}
    return {"shown": "whole", "value": json.loads(text)}


def _answer_body(said: Decided) -> dict[str, Json]:
    return {
        "approved": said.approved,
        "by": said.by or None,
        "at": rfc3339(said.at_ms),
        "reason": said.reason or None,
        "timed_out": said.timed_out,
    }
