"""The cost of checking one value against a stranger's schema, bounded before the validator runs.

A validator cannot be interrupted, and two things make a small schema expensive or deadly. Shared `$ref`s inside
applicators double the work at each step (`d0 = anyOf[d1, d1]`, `d1 = anyOf[d2, d2]`, …), and chains of them at every
level of a deep value overflow the native stack. Counting the paths through the schema's graph for the value at hand
gives the evaluations of a validator that never stops early. Values with the same counts share one `State`, so the count
costs about 1 µs for each JSON value.
"""

from typing import Final

from piecework.jsons import Json
from piecework.schemas.graph import Counts, SchemaGraph, SchemaRejected, spread
from piecework.values import dataclass, field

MAX_VALUE_DEPTH: Final = 250  # nested containers; the validator's reader refuses 255
MAX_VALUES: Final = 1_000_000  # on one level; requests and outputs of allowed size hold fewer
MAX_STACK: Final = 8_000  # chain times nested containers; the validator survives 28,000 and dies at 70,000 on 8 MiB
MAX_STEPS: Final = 20_000_000  # evaluations for one value, each at most about 10 ns
MAX_WALK: Final = 150_000  # steps of our own count, at about 1 µs each
POSITION_STEPS: Final = 5  # one pattern position at one character, when the engine cannot reuse its states
UNIQUE_STEPS: Final = 20  # hashing one JSON value
UNEVALUATED_SHIFT: Final = 2  # `unevaluated*` evaluates its alternatives once per child, four times as slowly
MAX_REMEMBERED: Final = 2_000  # arrivals of one schema, and members of one state


@dataclass(slots=True)
class State:
    """All evaluations of one value, and those that they cause for its children."""

    evaluated: Counts
    steps: int
    positions: int
    unique: int
    prefix_length: int
    members: dict[str, "Arrival"] = field(default_factory=dict)
    items: dict[int, "Arrival"] = field(default_factory=dict)


@dataclass(slots=True)
class Arrival:
    """How often a container applies each subschema to a value; one object for equal counts."""

    counts: Counts
    states: dict[int, State] = field(default_factory=dict)


class Tally:
    """The steps and the work of one count, refused as soon as they are too many."""

    def __init__(self) -> None:
        self.steps = 0
        self.work = 0

    def add(self, steps: int, work: int) -> None:
        self.steps += steps
        self.work += work
        if self.steps > MAX_STEPS or self.work > MAX_WALK:
            raise SchemaRejected("checking this value against the schema would take too many steps")


class CostBound:
    """Counts evaluations for one schema; threads may share it, because a lost cached state is harmless."""

    def __init__(self, graph: SchemaGraph) -> None:
        self._graph = graph
        self.has_alternatives = graph.has_alternatives
        self._order = graph.order
        self._arrivals: dict[frozenset[tuple[int, int]], Arrival] = {}
        unique = any(node.unique for node in graph.order)
        plain = not (graph.has_references or graph.pattern_count or graph.unevaluated or unique)
        self._plain_weight = sum(node.weight for node in graph.order) if plain else None
        self._start = Arrival({graph.root.rank: 1} if graph.root else {})

    def check(self, value: Json) -> int:
        """The evaluations this value can cause.

        Raises:
            SchemaRejected: more than `MAX_STEPS`, or more native stack than is safe.
        """
        size, depth = _measure(value)
        if self._graph.chain * (depth + 1) > MAX_STACK:
            raise SchemaRejected("the schema nests too many references for a value this deep")
        if self._plain_weight is not None and self._plain_weight * size <= MAX_STEPS:
            return self._plain_weight * size
        return self._count(value)

    def _count(self, value: Json) -> int:
        tally = Tally()
        stack = [(value, self._start)]
        while stack:
            current, arrival = stack.pop()
            if not arrival.counts:
                continue
            state = self._state(arrival, len(current) if isinstance(current, dict | list) else 0, tally)
            tally.add(*_own_steps(state, current))
            if isinstance(current, dict):
                stack.extend((child, self._member(state, name, tally)) for name, child in current.items())
            elif isinstance(current, list):
                stack.extend((child, self._item(state, index, tally)) for index, child in enumerate(current))
        return tally.steps

    def _state(self, arrival: Arrival, children: int, tally: Tally) -> State:
        factor = 1 << (children.bit_length() + UNEVALUATED_SHIFT) if self._graph.unevaluated else 1
        state = arrival.states.get(factor)
        if state is None:
            evaluated = spread(arrival.counts, self._order, factor, MAX_STEPS)
            tally.add(0, 2 * len(evaluated))
            nodes = [(self._order[rank], count) for rank, count in evaluated.items()]
            state = arrival.states[factor] = State(
                evaluated,
                steps=sum(node.weight * count for node, count in nodes),
                positions=sum(node.positions * count for node, count in nodes),
                unique=sum(count for node, count in nodes if node.unique),
                prefix_length=max((len(node.prefix) for node, _ in nodes), default=0),
            )
        return state

    def _member(self, state: State, name: str, tally: Tally) -> Arrival:
        known = state.members.get(name)
        if known is None:
            counts: Counts = {}
            for rank, count in state.evaluated.items():
                node = self._order[rank]
                rest = () if name in node.named else node.other_members
                for target in (*node.every_member, *filter(None, [node.members.get(name)]), *rest):
                    counts[target.rank] = counts.get(target.rank, 0) + count
            known = self._arrival(counts, len(state.evaluated), tally)
            if len(state.members) < MAX_REMEMBERED:
                state.members[name] = known
        return known

    def _item(self, state: State, index: int, tally: Tally) -> Arrival:
        place = min(index, state.prefix_length)
        known = state.items.get(place)
        if known is None:
            counts: Counts = {}
            for rank, count in state.evaluated.items():
                node = self._order[rank]
                placed = node.prefix[place : place + 1] or node.other_items
                for target in (*node.every_item, *placed):
                    if target.rank >= 0:
                        counts[target.rank] = counts.get(target.rank, 0) + count
            known = state.items[place] = self._arrival(counts, len(state.evaluated), tally)
        return known

    def _arrival(self, counts: Counts, looked_at: int, tally: Tally) -> Arrival:
        tally.add(0, looked_at + len(counts))
        key = frozenset(counts.items())
        known = self._arrivals.get(key)
        if known is None:
            if len(self._arrivals) >= MAX_REMEMBERED:
                self._arrivals.clear()
            known = self._arrivals[key] = Arrival(counts)
        return known


def _own_steps(state: State, value: Json) -> tuple[int, int]:
    """Steps at this value alone, and the work of counting them."""
    steps, work = state.steps, 1
    if state.positions:
        names = sum(map(len, value)) if isinstance(value, dict) else 0
        steps += POSITION_STEPS * state.positions * (len(value) if isinstance(value, str) else names)
    if state.unique and isinstance(value, list):
        size, _ = _measure(value)
        steps += state.unique * size * UNIQUE_STEPS
        work += size // 16
    return steps, work


def _measure(value: Json) -> tuple[int, int]:
    """The number of JSON values and of nested containers.

    Raises:
        SchemaRejected: deeper than `MAX_VALUE_DEPTH`, or too many values.
    """
    size, depth = 0, 0
    level: list[Json] = [value]
    while level:
        size += len(level)
        below: list[Json] = []
        for current in level:
            if isinstance(current, dict):
                below.extend(current.values())
            elif isinstance(current, list | tuple):
                below.extend(current)
        depth += 1
        if depth > MAX_VALUE_DEPTH or len(below) > MAX_VALUES:
            raise SchemaRejected("the value is nested too deep or is too large")
        level = below
    return size, depth - 1
