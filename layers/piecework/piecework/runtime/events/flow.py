"""POST /agent-events: acknowledge a kernel's lifecycle events, and let your hook hear of each once.

An event without a hook is acknowledged and not stored; a repeated one is acknowledged again. With a hook the answer is
a piece under (caller, event id), so a resend gets the recorded bytes. An event with a dedupe key is also a piece under
(caller, dedupe key), inside which the hook runs, so the hook does not run for another event with that key. Requests to
the table: none without a hook; 2 with one, 4 with a dedupe key, 1 for a resend, 1 per `run.step`.

    | the runner dies after             | a resend of the event sees                                                |
    |-----------------------------------|---------------------------------------------------------------------------|
    | the claims                        | running; waits until the leases lapse, takes both over, runs the hook     |
    | a step of the hook                | the same; the recorded step is replayed, its side effect is not repeated  |
    | the dedupe key's record           | running, then takes over; the hook is not run again, its answer is kept   |
    | the event's record                | done: the recorded bytes, decision included                               |

A kernel carries out any decision that it can read, whatever the status. So only a success holds a decision, and only
one that passed `withheld`. A hook that has returned is not run again, even if its decision cannot be sent. Sources:
runtime specification 3.3, 6.3, 8.2.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from piecework.durable.pieces import INLINE_LIMIT, Answer, Claim, Overflow, Pieces, Result, piece_key
from piecework.durable.steps import PieceSteps, StepTable
from piecework.errors import Internal, PieceworkError, Refused, Retryable
from piecework.extend import bounds
from piecework.extend.event_hook import ROUTES, Decision, EventHook
from piecework.extend.executors import Log, Run
from piecework.extend.faults import fault_of
from piecework.extend.outgoing import Unsendable, sendable
from piecework.jsons import MAX_DEPTH_READ, Json, canonical, loads
from piecework.jsons.fingerprints import fingerprint
from piecework.runtime.events.messages import AgentEvent, AgentEventCallback
from piecework.runtime.messages import parse
from piecework.values import dataclass, field

HOOK_NEEDS_MS: Final = 5_000  # a lost run is taken over only with this much time left for the hook
DECISION_BYTES: Final = INLINE_LIMIT - 1_024  # the answer around it and the dedupe key's record stay one small item
PLAIN_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")  # an id that is safe to show in a log line


@dataclass(frozen=True, slots=True)
class Received:
    """The answer and the facts for its outcome line; never a text of the event."""

    body: bytes
    facts: Mapping[str, Any]
    replayed: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)


class NoOverflow(Overflow):
    """Answers to events always fit their item."""

    def put(self, pointer: str, body: bytes) -> None:
        raise Internal("an event's answer is too large for its item")

    def get(self, pointer: str) -> bytes:
        raise Internal("an event's answer points to the bucket, which does not hold answers to events")


class HookedEvents:
    """Runs hooks inside pieces."""

    def __init__(
        self,
        hooks: Mapping[str, EventHook],
        *,
        pieces: Pieces,
        steps: StepTable,
        clock: Callable[[], int],
        expires_at: Callable[[], int],
        log: Log,
    ) -> None:
        self._hooks = hooks
        self._pieces = pieces
        self._steps = steps
        self._clock = clock
        self._expires_at = expires_at
        self._log = log

    def wants(self, event: AgentEvent) -> bool:
        return event.event_type in self._hooks

    def answer(self, event: AgentEvent, *, caller: str, until_ms: int, trace_id: str | None) -> Answer:
        """The event's one answer; its hook runs at most once at a time, and not again once it has returned.

        Raises:
            Retryable: the hook failed, or asked for another try.
            KeyConflict: the event's id belongs to another event.
            InProgress: another runner has the event and did not finish in time.
        """
        key = piece_key("agent-event", caller, event.event_id)
        mark = fingerprint(event.model_dump(exclude_none=True))

        def hook(claim: Claim) -> Result:
            return self._run_hook(event, self._run_of(claim, until_ms, trace_id))

        def hook_once_per_dedupe_key(claim: Claim) -> Result:
            dedupe = piece_key("agent-event-dedupe", caller, event.dedupe_key or "")
            return self._first_of(dedupe, key, event, hook, until_ms)

        work = hook_once_per_dedupe_key if event.dedupe_key else hook
        return self._pieces.perform(key, mark, work, until_ms=until_ms, needs_ms=HOOK_NEEDS_MS)

    def _run_of(self, claim: Claim, until_ms: int, trace_id: str | None) -> Run:
        return Run(
            remaining_ms=lambda: until_ms - self._clock(),
            steps=PieceSteps(self._steps, claim, self._expires_at),
            log=self._log,
            trace_id=trace_id,
            right=claim.right,
        )

    def _first_of(
        self, dedupe: str, key: str, event: AgentEvent, hook: Callable[[Claim], Result], until_ms: int
    ) -> Result:
        """The hook's result, if `key` is the first event of this dedupe key; else an answer without a decision."""

        def first(inner: Claim) -> Result:
            made = hook(inner)
            return Result(canonical({"by": key, "answer": loads(made.body)}), made.ok)

        recorded = self._pieces.perform(dedupe, dedupe, first, until_ms=until_ms, needs_ms=HOOK_NEEDS_MS)
        answer = loads(recorded.body)
        if answer["by"] == key:
            return Result(canonical(answer["answer"]), recorded.ok)
        return Result(acknowledgement(event, self._clock()))  # handled under another id, with its decision

    def _run_hook(self, event: AgentEvent, run: Run) -> Result:
        try:
            decision = self._hooks[event.event_type](event, run)
        except Refused as refusal:
            return Result(canonical({"refused": bounds.reason(refusal.message)}), ok=False)
        except PieceworkError as error:
            if error.retryable:
                raise
            raise self._failed(event, error) from error
        except Exception as bug:  # a hook's bug: its text is not logged, because it may quote the event
            raise self._failed(event, bug) from bug
        reason = None if decision is None else withheld(decision, event)
        if reason is not None:
            self._log.warning("agent_event_decision_withheld", event_type=event.event_type, reason=reason)
        sent = None if decision is None or reason is not None else to_wire(decision, event)
        return Result(acknowledgement(event, self._clock(), sent))

    def _failed(self, event: AgentEvent, error: Exception) -> Retryable:
        self._log.warning("agent_event_hook_failed", event_type=event.event_type, **fault_of(error))
        return Retryable("the event's hook failed; the runtime's log names the place")


class AgentEvents:
    """Answers events for the runtime door."""

    def __init__(self, *, clock: Callable[[], int], hooked: HookedEvents | None = None) -> None:
        self._clock = clock
        self._hooked = hooked

    def receive(self, body: dict[str, Json], *, caller: str, until_ms: int, trace_id: str | None = None) -> Received:
        """Acknowledge one callback before `until_ms` (epoch ms), after its hook if it has one.

        Raises:
            Unprocessable: a member is missing, mistyped, or names an unknown type or kind.
            Refused: the hook refused the event, now or before.
            PieceworkError: as `HookedEvents.answer`.
        """
        event = parse(AgentEventCallback, body).event
        facts = _facts(event, caller)
        if self._hooked is None or not self._hooked.wants(event):
            return Received(acknowledgement(event, self._clock()), facts)
        answer = self._hooked.answer(event, caller=caller, until_ms=until_ms, trace_id=trace_id)
        facts |= {"replayed": answer.replayed, "waited": answer.waited, "took_over": answer.took_over}
        happened = {"Replays": answer.replayed, "Waits": answer.waited, "TakeOvers": answer.took_over}
        counts = {name: 1 for name, has in happened.items() if has}
        if not answer.ok:
            raise Refused(loads(answer.body)["refused"]).with_facts(facts, counts)
        return Received(answer.body, facts, answer.replayed, counts)


def acknowledgement(event: AgentEvent, now_ms: int, decision: dict[str, Json] | None = None) -> bytes:
    """The success body; of the event it names only the type, which is one of eleven words."""
    decided = {} if decision is None else {"decision": decision}
    return canonical({"ok": True, "acked_at": now_ms, "detail": f"received {event.event_type}", **decided})


def to_wire(decision: Decision, event: AgentEvent) -> dict[str, Json]:
    """The decision as the kernel reads it."""
    decision_id = decision.decision_id or f"decision-{hashlib.sha256(event.event_id.encode()).hexdigest()[:32]}"
    members = {"decision_id": decision_id, "action": decision.action, "route": decision.route}
    optional = {"reason": decision.reason, "payload": decision.payload}
    return members | {name: value for name, value in optional.items() if value is not None}


def withheld(decision: object, event: AgentEvent) -> str | None:
    """Why a decision must not be sent, without a word of the hook's; None when it may be sent."""
    if not isinstance(decision, Decision):
        return "the hook must return a Decision or None"
    made: Any = decision  # a hook's code may be unchecked, so any member may have a wrong type
    texts = (made.decision_id or "made of the event's id", made.action)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return "decision_id and action must be non-blank strings"
    if made.route not in ROUTES:
        return f"route must be one of {', '.join(ROUTES)}"
    if not isinstance(made.reason, str | None):
        return "reason must be a string"
    if made.route != "noop" and made.action not in event.allowed_actions:
        return "action must be one of the event's allowed_actions"
    return _unwritable(to_wire(decision, event))


def _unwritable(members: dict[str, Json]) -> str | None:
    try:
        _, raw = sendable(members, MAX_DEPTH_READ - 1)
    except Unsendable as reason:
        return str(reason).replace("output", "decision", 1)
    return f"the decision is over {DECISION_BYTES} bytes" if len(raw) > DECISION_BYTES else None


def _facts(event: AgentEvent, caller: str) -> dict[str, Any]:
    shown = event.event_id if PLAIN_ID.fullmatch(event.event_id) else None
    return {"caller": caller, "event_type": event.event_type, "source_kind": event.source_kind, "event_id": shown}
