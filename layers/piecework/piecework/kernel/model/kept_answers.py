"""Answers of people that came while nobody was there to act on them: they hold for the same call of the next run.

A call that needs a person is known by its mark (tool, where it runs, arguments) and its place among such calls of its
run: an agent that starts over makes it again, under a new id and perhaps a new key. An answer is kept for it when its
step is cancelled by the loss of the agent and cannot have been worked on:

| the step | was never worked on when |
|---|---|
| remote | no runner was ever given its job |
| local, no session at the time of the answer | always: nobody could be told |
| local, the stream of its consumer had ended by then | no stream of that consumer has opened since |
| local, otherwise | unknown: the agent may have been told, so the person is asked again |

A kept answer is used once. Where a client repeats its keys, the key tells the call.
"""

from collections.abc import Mapping
from typing import Final, Self

from piecework.jsons import Json
from piecework.kernel.model.fingerprints import fingerprint
from piecework.values import dataclass, field, replace

MOST_MARKS: Final = 500  # different calls of one run that are told apart; answers about further ones are not kept
MOST_KEPT: Final = 100  # answers of one execution; the oldest are given up, so the person is asked again
REASON: Final = 500  # characters of a kept denial's reason; the event has all of it


@dataclass(frozen=True, slots=True)
class Call:
    """A call that needs a person, of a step that nobody has worked on."""

    mark: str
    place: int  # among such calls of its run, from 1
    key: str = ""  # a digest: keys may be of any length
    generation: int = 0  # of the consumer whose ended stream a successor may take the answer from; 0: there is none


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that is left for the next run."""

    step_id: str
    call: Call
    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Approvals:
    """What an execution remembers of the calls that needed a person."""

    calls: Mapping[str, Call] = field(default_factory=dict)  # by step, of those that nobody can have worked on
    counts: Mapping[str, int] = field(default_factory=dict)  # by mark, such calls of this run
    kept: tuple[Kept, ...] = ()

    def asked(self, step_id: str, mark: str, key: str) -> Self:
        """A step is created that a person must let through."""
        counted = self.counted(mark)
        if counted is self:
            return self
        call = Call(mark, counted.counts[mark], _digest(key))
        return replace(counted, calls={**self.calls, step_id: call})

    def counted(self, mark: str) -> Self:
        """One more such call in this run."""
        if mark not in self.counts and len(self.counts) >= MOST_MARKS:
            return self
        return replace(self, counts={**self.counts, mark: self.counts.get(mark, 0) + 1})

    def left_for(self, step_id: str, generation: int) -> Self:
        """A yes lies in the outbox of a consumer whose stream has ended."""
        call = self.calls.get(step_id)
        return replace(self, calls={**self.calls, step_id: replace(call, generation=generation)}) if call else self

    def not_taken(self, generation: int) -> Self:
        """The consumer is lost, and its last stream was this one: what was left for a successor reached nobody."""
        calls = {
            step_id: replace(call, generation=0) if call.generation == generation else call
            for step_id, call in self.calls.items()
        }
        return replace(self, calls=calls)

    def worked_on(self, step_id: str) -> Self:
        """Somebody may be at work on the step, or it has ended."""
        if step_id not in self.calls:
            return self
        return replace(self, calls={found: call for found, call in self.calls.items() if found != step_id})

    def can_keep(self, step_id: str) -> bool:
        """Whether the answer about a step would reach nobody if its agent is lost now."""
        return step_id in self.calls and not self.calls[step_id].generation

    def keep(self, step_id: str, *, approved: bool, reason: str = "") -> Self:
        """The answer about a step is left for the next run."""
        kept = Kept(step_id, self.calls[step_id], approved, reason[:REASON])
        return replace(self.worked_on(step_id), kept=(*self.kept, kept)[-MOST_KEPT:])

    def for_call(self, mark: str, key: str, *, is_key_new: bool) -> Kept | None:
        """The answer that holds for a call of this run."""
        same = [kept for kept in self.kept if kept.call.mark == mark]
        by_key = [kept for kept in same if key and kept.call.key == _digest(key)]
        if by_key or not is_key_new:
            return by_key[0] if by_key else None
        place = self.counts.get(mark, 0) + 1
        return next((kept for kept in same if kept.call.place == place), None)

    def used(self, kept: Kept) -> Self:
        """An answer is used up by a call, which counts as one."""
        left = tuple(other for other in self.kept if other != kept)
        return replace(self.counted(kept.call.mark), kept=left)

    def let_through(self, step_id: str, kept: Kept, key: str) -> Self:
        """A step runs by a kept answer; should nobody come to work on it, the answer is kept again."""
        return replace(self, calls={**self.calls, step_id: replace(kept.call, key=_digest(key), generation=0)})

    def new_run(self) -> Self:
        """An agent begins from the start."""
        return replace(self, calls={}, counts={})


def mark_of(tool_id: str, remote: bool, arguments: Json) -> str:
    """What equal calls have in common."""
    return fingerprint([tool_id, remote, arguments])


def _digest(key: str) -> str:
    return fingerprint(key) if key else ""
