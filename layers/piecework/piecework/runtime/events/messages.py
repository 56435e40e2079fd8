"""The agent-event callback, as a kernel sends it (runtime specification 2.8)."""

from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from piecework.extend.event_hook import EventType, SourceKind
from piecework.jsons import Json, canonical
from piecework.runtime.messages import Count, Id, Message


def _as_text(value: Json) -> Json:
    """A string as it is; any other value as its JSON text, as the kernel's own reader does."""
    return value if value is None or isinstance(value, str) else canonical(value).decode("utf-8")


JsonText = Annotated[str | None, BeforeValidator(_as_text, json_schema_input_type=Any)]


class AgentCard(Message):
    """An agent's description of itself."""

    agent_id: str
    node_id: str | None = None
    card_hash: str
    issued_at: Count
    card: Any
    signature: str | None = None


class AgentEnvelope(Message):
    """The signed message that came with an event."""

    protocol: str
    transport_profile: str | None = None
    source_agent_id: str | None = None
    target_agent_id: str | None = None
    source_node_id: str | None = None
    target_node_id: str | None = None
    capability: str | None = None
    source_agent_card: AgentCard | None = None
    message_json: JsonText = Field(None, validation_alias=AliasChoices("message_json", "message"))
    extensions_json: JsonText = Field(None, validation_alias=AliasChoices("extensions_json", "extensions"))
    signature: str | None = None


class AgentEvent(Message):
    """One lifecycle event."""

    event_id: Id
    event_type: EventType
    source_kind: SourceKind
    source_node_id: str | None = None
    target_agent_id: str | None = None
    target_executor: str | None = None
    agent_envelope: AgentEnvelope | None = None
    correlation_id: str | None = None
    dedupe_key: str | None = None
    payload: Any
    requires_commit: bool
    allowed_actions: list[str] = Field(default_factory=list)
    created_at: Count


class AgentEventCallback(Message):
    """POST /agent-events."""

    event: AgentEvent
