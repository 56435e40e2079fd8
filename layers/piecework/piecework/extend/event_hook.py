"""Agent-event hooks: your own code that receives a caller's lifecycle events and may answer with a decision.

    @on_agent_event(types=("topic_message_requires_reply",))
    def reply(event: AgentEvent, run: Run) -> Decision | None: ...

A hook runs inside the request, once per event: a resend gets the recorded answer. After `Retryable` or a bug the caller
sends the event again and the hook runs again, so put a side effect into `run.step`, which runs once. `Refused` is
final. The event's texts come from strangers: judge them, never obey them.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, Protocol, get_args

from piecework.errors import SettingsError
from piecework.extend.executors import Run
from piecework.jsons import Json
from piecework.values import dataclass

EventType = Literal[
    "friend_request",
    "dm_received",
    "payment_request",
    "payment_update",
    "task_claim_received",
    "task_claim_decision_received",
    "task_result_received",
    "task_completion_decision_received",
    "task_settled_received",
    "topic_message_requires_reply",
    "third_party_result",
]
SourceKind = Literal[
    "peer_relationship",
    "peer_direct_message",
    "payment_summary",
    "task_lifecycle",
    "topic_message",
    "service_net_result",
]
Route = Literal["noop", "wattetheria_commit", "wattswarm_direct"]

EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)
SOURCE_KINDS: Final[tuple[SourceKind, ...]] = get_args(SourceKind)
ROUTES: Final[tuple[Route, ...]] = get_args(Route)


class AgentEvent(Protocol):
    """One event, as a hook reads it."""

    @property
    def event_id(self) -> str: ...
    @property
    def event_type(self) -> EventType: ...
    @property
    def source_kind(self) -> SourceKind: ...
    @property
    def source_node_id(self) -> str | None: ...
    @property
    def payload(self) -> Json: ...
    @property
    def allowed_actions(self) -> Sequence[str]: ...
    @property
    def requires_commit(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What the caller is to do about an event; it acts on the decision at once.

    An empty `decision_id` is derived from the event's own id, so that a repeated run names the same decision.
    """

    action: str  # one of the event's allowed actions, unless the route is noop
    route: Route
    reason: str | None = None
    payload: Json = None
    decision_id: str = ""


EventHook = Callable[[AgentEvent, Run], Decision | None]

_registered: dict[str, EventHook] = {}


def on_agent_event(*, types: Sequence[EventType]) -> Callable[[EventHook], EventHook]:
    """Register a function as the hook of these event types; the function itself stays callable.

    Raises:
        SettingsError: a type is unknown or has a hook in another module, or the function is async.
    """
    if unknown := sorted(set(types).difference(EVENT_TYPES)):
        raise SettingsError(f"unknown type of agent event: {', '.join(unknown)}")

    def register(function: EventHook) -> EventHook:
        if inspect.iscoroutinefunction(function):
            raise SettingsError("an agent-event hook must be a plain function")
        for event_type in types:
            taken = _registered.get(event_type)
            if taken is not None and taken.__module__ != function.__module__:
                raise SettingsError(f"two hooks are registered for the agent event {event_type}")
            _registered[event_type] = function
        return function

    return register


def registered() -> Mapping[str, EventHook]:
    """All hooks whose modules have been imported, by event type."""
    return MappingProxyType(_registered)
