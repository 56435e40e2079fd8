"""Agents that come, go, die and lose their streams as they please: every execution ends, no assignment is doubled.

Clients behave as the SDK does: a clean end is answered with an immediate reconnect, a loss with one after 1.5 to 3 s, a
new process has a new consumer id. A served connection may die at any point: before its frames, or right after them.
"""

import random
from dataclasses import dataclass, field

import pytest

from piecework.kernel.errors import KernelError
from piecework.kernel.model.state import Status
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.stage import KernelStage, Line, rotating

TICKS = 240  # of a quarter second: a minute of trouble
RECOVERY_SECONDS = 120


@dataclass
class Process:
    """An agent's process: one consumer, its handlers, its connection."""

    consumer_id: str
    line: Line | None = None
    read: int = 0
    back_at: float = 0.0
    handlers: list[tuple[float, dict]] = field(default_factory=list)


class Story:
    """Two processes of one agent, and everything that befalls them."""

    def __init__(self, seed: int, settings: KernelSettings) -> None:
        self.dice, self.stage = random.Random(seed), KernelStage(settings)
        self.is_seen = not settings.rotation_ms  # whether the door sees that a client has left
        self.born = 0
        self.processes = [self.new_process(), self.new_process()]
        self.assigned: list[tuple[str, str]] = []
        self.executions: list[str] = []

    @property
    def now(self) -> float:
        return self.stage.clock() / 1000

    def new_process(self) -> Process:
        self.born += 1
        return Process(f"c{self.born}")

    def tick(self) -> None:
        self.stage.clock.move(0.25)
        self.stage.sweep()
        for line in list(self.stage.lines):
            line.look()
        for process in self.processes:
            self.serve(process)

    def serve(self, process: Process) -> None:
        """What a process does by itself."""
        line = process.line
        if line is not None:
            self.take_in(process, line)
            if line.has_ended:
                process.line = None
        if process.line is None and self.now >= process.back_at:
            process.line, process.read = self.stage.copy().agent(consumer_id=process.consumer_id), 0
            self.take_in(process, process.line)
        for finish_at, session in [each for each in process.handlers if each[0] <= self.now]:
            process.handlers.remove((finish_at, session))
            try:
                self.stage.intend(session, "complete")
            except KernelError:
                continue  # it is somebody else's by now

    def take_in(self, process: Process, line: Line) -> None:
        for kind, data in line.seen[process.read :]:
            if kind == "execution.assigned":
                self.assigned.append((data["execution_id"], data["session_id"]))
                process.handlers.append((self.now + self.dice.choice([0, 1, 5, 20]), data))
        process.read = len(line.seen)

    def trouble(self) -> None:
        """One thing that may happen."""
        process = self.dice.choice(self.processes)
        what = self.dice.choice(["create", "create", "lose", "die", "cut", "cut after writing"])
        if what == "create":
            self.executions.append(self.stage.create())
        elif process.line is not None:
            if what == "lose":
                self.lose(process)
            elif what == "die":
                self.lose(process)
                self.processes[self.processes.index(process)] = self.new_process()
            else:
                self.cut(process, is_written=what != "cut")

    def lose(self, process: Process) -> None:
        """The client's side of a connection ends."""
        assert process.line is not None
        if self.is_seen:
            process.line.close()
        else:
            process.line.is_lost = True
        process.line, process.back_at = None, self.now + self.dice.uniform(1.5, 3)

    def cut(self, process: Process, *, is_written: bool) -> None:
        """The process that serves a connection dies in the middle of a look."""
        line = process.line
        assert line is not None
        step = line.stream.step()
        if is_written:
            for frame in step.frames:
                line.read(frame)
            self.take_in(process, line)
        line.has_ended = True
        self.stage.lines.remove(line)
        process.line, process.back_at = None, self.now + self.dice.uniform(1.5, 3)

    def run(self) -> None:
        for _ in range(TICKS):
            if self.dice.random() < 0.12:
                self.trouble()
            self.tick()
        for _ in range(RECOVERY_SECONDS * 4):
            if all(self.stage.status(each) is Status.COMPLETED for each in self.executions):
                return
            self.tick()
        stuck = {each: self.stage.types(each) for each in self.executions}
        raise AssertionError({each: types for each, types in stuck.items() if types[-1] != "execution.completed"})


SETTINGS = [KernelSettings(), rotating(45), rotating(15)]


def assert_all_end(seeds: range, settings: KernelSettings) -> None:
    count = 0
    for seed in seeds:
        story = Story(seed, settings)
        story.run()
        count += len(story.assigned)
        assert len(set(story.assigned)) == len(story.assigned), seed
        for execution in story.executions:
            events = story.stage.store.executions.events(execution, 0, 1000)
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            assert [event.type for event in events].count("execution.completed") == 1
    assert count > len(seeds)


@pytest.mark.parametrize(
    "settings", [KernelSettings(), rotating(45), rotating(15)], ids=["seen", "rotating", "rotating fast"]
)
def test_every_execution_ends_whatever_happens_to_its_agents_connections(settings):
    assert_all_end(range(15), settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [KernelSettings(), rotating(45), rotating(15)], ids=["seen", "rotating", "rotating fast"]
)
def test_every_execution_ends_in_very_many_stories(settings):
    assert_all_end(range(15, 200), settings)
