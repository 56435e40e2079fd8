"""Executions, events and tools as clients see them (specification sections 2 and 4.1)."""

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.model.ports import Approval, Details, Summary, ToolEntry


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
        "created_at": rfc3339(execution.created_at_ms),
        "updated_at": rfc3339(execution.updated_at_ms),
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


def tool_body(tool: ToolEntry) -> dict[str, Json]:
    """A tool in the directory."""
    return {
        "id": tool.id,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "runner_id": tool.runner_id,
        "registered_at": rfc3339(tool.registered_at_ms),
    }


def approval_body(approval: Approval) -> dict[str, Json]:
    """A step that waits for a person."""
    return {
        "execution_id": approval.execution_id,
        "agent_id": approval.agent_id,
        "step_id": approval.step_id,
        "tool_id": approval.tool_id,
        "since": rfc3339(approval.since_ms),
    }
