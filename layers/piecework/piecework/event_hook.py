"""Agent-event hooks, under the public name: see `piecework.extend.event_hook`."""

from piecework.extend.event_hook import (
    EVENT_TYPES,
    ROUTES,
    SOURCE_KINDS,
    AgentEvent,
    Decision,
    EventType,
    Route,
    SourceKind,
    on_agent_event,
)

__all__ = [
    "EVENT_TYPES",
    "ROUTES",
    "SOURCE_KINDS",
    "AgentEvent",
    "Decision",
    "EventType",
    "Route",
    "SourceKind",
    "on_agent_event",
]
