"""Sliding windows of allowed calls, one per agent and tool, shared by every rule and every copy (specification 5.3)."""

import hashlib
from bisect import bisect_right, insort
from typing import Protocol

from piecework.jsons import canonical
from piecework.values import dataclass


class RateWindows(Protocol):
    """Counts allowed calls."""

    def take(self, agent_id: str, tool_id: str, most: int, window_ms: int, now_ms: int) -> bool:
        """Count a call if fewer than `most` were counted within the window before it; whether it was counted."""


@dataclass(frozen=True, slots=True)
class Window:
    """The counted calls of one agent to one tool that some rule may still ask about."""

    calls: tuple[int, ...] = ()  # epoch ms, in order
    most: int = 0  # the largest number, and the longest window, that was asked for
    window_ms: int = 0

    def taken(self, most: int, window_ms: int, now_ms: int) -> "Window | None":
        """The window with one call more, or None when it is full.

        A copy whose clock is ahead may have counted calls of the future; they count like those of now.
        """
        if len(self.calls) - bisect_right(self.calls, now_ms - window_ms) >= most:
            return None
        kept, longest = max(most, self.most), max(window_ms, self.window_ms)
        calls = list(self.calls[bisect_right(self.calls, now_ms - longest) :])
        insort(calls, now_ms)
        return Window(tuple(calls[-kept:]), kept, longest)

    @property
    def ends_at_ms(self) -> int:
        """When its last call stops counting, in epoch milliseconds."""
        return (self.calls[-1] if self.calls else 0) + self.window_ms


def window_id(agent_id: str, tool_id: str) -> str:
    """A name of bounded length for a pair."""
    return hashlib.sha256(canonical([agent_id, tool_id])).hexdigest()
