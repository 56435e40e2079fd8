"""When marks are read, on a clock that is given: how often, for how long after news, and for how much of the time."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from piecework.kernel.streams.hints import Key, Mark, Named, agent_key, monitor_key, runner_key
from piecework.kernel.streams.listening import AT_ONCE, BUSY_FOR_SECONDS, Listening

ONE = agent_key("triage", "one")
NAMED = Named("key", "execution")
A_LITTLE = 1e-6


@dataclass
class Process:
    """A process that does nothing but read marks; each request takes as long as a test says."""

    keys: list[Key]
    takes: float = 0.0
    takes_per_key: float = 0.0
    marks: dict[Key, Mark] = field(default_factory=dict)
    now: float = 100.0
    requests: list[tuple[float, list[Key]]] = field(default_factory=list)
    news: list[tuple[float, Key]] = field(default_factory=list)
    spent: float = 0.0
    is_out: bool = False  # the store

    def __post_init__(self) -> None:
        self.listening = Listening()
        for key in self.keys:
            self.listening.open(key, self.now)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            if keys := self.listening.due(self.now):
                self._ask(keys)
            self.now += max(self.listening.pause(self.now), A_LITTLE)

    def _ask(self, keys: list[Key]) -> None:
        began = self.now
        self.requests.append((began, keys))
        marks = dict(self.marks)
        self.now += self.takes + self.takes_per_key * len(keys)
        self.spent += self.now - began
        if not self.is_out:
            self.news += [(self.now, key) for key in self.listening.heard(keys, marks, self.now)]
        self.listening.over(keys, began, self.now)

    def reads(self, since: float) -> Counter[Key]:
        return Counter(key for at, keys in self.requests if at >= since for key in keys)


@pytest.mark.parametrize(
    ("key", "idle", "busy"),
    [(ONE, 20, 47.6), (runner_key("geo", "one"), 20, 47.6), (monitor_key("e"), 6.7, 20)],
)
def test_a_key_is_read_often_for_five_seconds_after_news_and_seldom_otherwise(key, idle, busy):
    process = Process([key], takes=0.003)
    process.run(10)
    assert process.reads(100)[key] == pytest.approx(10 * idle, abs=2)

    process.marks[key] = Mark(1)
    process.run(1)
    [(heard_at, _)] = process.news
    assert heard_at < 110 + 1 / idle + 0.01
    process.run(heard_at + BUSY_FOR_SECONDS - process.now)
    assert process.reads(heard_at)[key] == pytest.approx(BUSY_FOR_SECONDS * busy, abs=3)

    since = process.now + 0.1
    process.run(10.1)
    assert process.reads(since)[key] == pytest.approx(10 * idle, abs=2)


def test_news_that_go_on_keep_a_key_busy():
    process = Process([ONE])
    process.run(0.1)
    for number in range(20):
        process.marks[ONE] = Mark(number + 1)
        process.run(1)

    assert len(process.news) == 20
    assert process.reads(101)[ONE] / 19.1 == pytest.approx(47.6, abs=1)


def test_the_first_mark_of_a_key_wakes_its_stream_and_does_not_make_it_busy():
    process = Process([ONE], marks={ONE: Mark(57)})
    process.run(5)

    assert [key for _, key in process.news] == [ONE]
    assert process.reads(100)[ONE] == pytest.approx(100, abs=2)


@pytest.mark.parametrize(
    ("known", "mark", "is_named"),
    [
        (Mark(0), Mark(1, NAMED), True),
        (Mark(7), Mark(8, NAMED), True),
        (Mark(7), Mark(8), False),
        (Mark(7), Mark(9, NAMED), False),  # another hint has been overwritten
        (Mark(7), Mark(1, NAMED), False),  # the row had gone, and came back
        (None, Mark(1, NAMED), False),  # nobody knows what the hints before were about
    ],
)
def test_a_message_is_named_if_it_is_certainly_the_only_new_one(known, mark, is_named):
    listening = Listening()
    listening.open(ONE, 0.0)
    if known is not None:
        listening.heard([ONE], {ONE: known} if known.number else {}, 0.1)

    assert listening.heard([ONE], {ONE: mark}, 0.2) == {ONE: NAMED if is_named else None}
    assert listening.heard([ONE], {ONE: mark}, 0.3) == {}


def test_what_this_process_knows_by_itself_makes_a_key_busy():
    process = Process([ONE])
    process.run(1)
    process.listening.rouse(ONE, process.now)
    process.run(4)

    assert process.reads(101)[ONE] == pytest.approx(4 * 47.6, abs=2)
    assert process.news == []


def test_a_hundred_idle_streams_share_a_request_whenever_they_came():
    process = Process([])
    for number in range(AT_ONCE):
        process.listening.open(agent_key(f"a{number}", "one"), process.now)
        process.run(0.013)
    since = process.now
    process.run(5)

    sizes = [len(keys) for at, keys in process.requests if at > since]
    assert set(sizes) == {AT_ONCE}
    assert len(sizes) == pytest.approx(100, abs=2)


def test_a_busy_key_does_not_wait_for_the_long_reads_of_idle_ones():
    keys = [agent_key(f"a{number}", "one") for number in range(AT_ONCE)]
    process = Process([*keys, ONE], takes=0.002, takes_per_key=0.0001)
    process.run(1)
    process.marks[ONE] = Mark(1)
    process.run(0.2)
    since = process.now
    process.run(4)

    assert process.reads(since)[ONE] > 4 * 40
    assert min(process.reads(since)[key] for key in keys) > 4 * 15


def test_however_many_streams_a_process_reads_for_a_bounded_part_of_its_time_and_forgets_none():
    keys = [agent_key(f"a{number}", "one") for number in range(700)]
    process = Process(keys, takes=0.01)
    process.run(20)

    assert process.spent / 20 < 0.26
    assert max(len(keys) for _, keys in process.requests) == AT_ONCE
    reads = process.reads(110)
    assert set(reads) == set(keys)
    assert max(reads.values()) - min(reads.values()) <= 1

    process.marks |= dict.fromkeys(keys[:300], Mark(1))
    spent = process.spent
    process.run(4)
    assert (process.spent - spent) / 4 < 0.51


def test_a_store_that_is_out_of_reach_is_asked_no_more_often():
    process = Process([ONE], is_out=True)
    process.run(5)
    assert process.reads(100)[ONE] == pytest.approx(100, abs=2)

    process.is_out, process.marks[ONE] = False, Mark(1)
    process.run(1)
    assert len(process.news) == 1


def test_a_key_whose_streams_have_ended_is_not_read_and_an_answer_that_comes_late_is_dropped():
    listening = Listening()
    listening.open(ONE, 1.0)
    assert listening.due(1.0) == [ONE]
    listening.close(ONE)

    assert listening.heard([ONE], {ONE: Mark(1)}, 1.1) == {}
    listening.over([ONE], 1.0, 1.1)
    assert listening.due(2.0) == []
    assert 0 < listening.pause(2.0) <= 0.1
