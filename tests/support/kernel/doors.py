"""A kernel door over given stores instead of tables; everything else of it is real, or replaced by name."""

from typing import Any

from piecework.kernel.policy.verdicts import Call, Decision, Verdict
from piecework.kernel.service.commits import Environment
from piecework.kernel.settings import KernelSettings
from piecework.kernel.wiring import KernelDoor
from tests.support.kernel.hints import FakeHints
from tests.support.kernel.policies import FakeRateWindows

PORTS = ("executions", "agents", "runners", "outbox", "connections", "counters", "due_times")


class Allowing:
    """A policy that allows everything."""

    def decide(self, call: Call) -> Verdict:
        return Verdict(Decision.ALLOW, "", "ok")


def a_door(store: Any, clock: Any, settings: KernelSettings | None = None, hears: Any = (), **parts: Any) -> KernelDoor:
    """The door; `parts` take the place of its own by name."""
    door = KernelDoor({}, hears)
    ports = {name: getattr(store, name) for name in PORTS}
    plain = {
        "clock": clock,
        "settings": settings or KernelSettings(),
        "environment": Environment(clock, sleep=lambda seconds: None),
        "hints": FakeHints(),
        "policy": Allowing(),
        "windows": FakeRateWindows(),
    }
    vars(door).update({**ports, **plain, **parts})
    return door
