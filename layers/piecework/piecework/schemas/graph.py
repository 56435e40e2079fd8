"""A stranger's schema as a graph of subschemas; refused if it is too large, refers to other documents or loops.

*In-place* edges apply another subschema to the same value (`$ref`, `anyOf`, `if`, …), *child* edges apply it to a
member or an item. The graph is an upper bound of a validator's work: it also has edges for the siblings of `$ref` in
draft 7, which validators skip, and for every meaning of an ambiguous anchor.
"""

import heapq
from typing import Final

from piecework.jsons import Json
from piecework.schemas.patterns import PatternNotRun, pattern_positions
from piecework.schemas.references import LATEST_DRAFT, REFERENCES, References, SchemaRejected, place_in
from piecework.values import dataclass, field

__all__ = ["Counts", "Node", "SchemaGraph", "SchemaRejected", "json_size", "spread"]

MAX_SCHEMA_DEPTH: Final = 128  # nested containers; the native parser and the meta-schema check recurse over them
MAX_SCHEMA_NODES: Final = 20_000  # JSON values in a schema; more than a 128 KiB contract sensibly holds
MAX_IN_PLACE_CHAIN: Final = 250  # nested subschemas applied to one value; each costs native stack
MAX_EAGER_PATHS: Final = 1_000  # in-place paths below `unevaluated*`, which the validator expands while it builds
MAX_PATTERNS: Final = 128
MAX_PATTERN_POSITIONS: Final = 20_000  # of all patterns together; each takes 7 µs to build

NOT_RUN: Final = (  # follows the place of a pattern
    "is an unsupported regular expression: look-around, back-references, inline flags, atomic groups, too large, "
    "or malformed"
)

_IN_PLACE_ONE: Final = frozenset({"not", "if", "then", "else"})
_IN_PLACE_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"})
_EVERY_ITEM: Final = ("contains", "unevaluatedItems")
_OTHER_ITEMS: Final = ("prefixItems", "items", "additionalItems")
_OTHER_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties")
_CHILDREN: Final = frozenset(
    {"properties", "patternProperties", "propertyNames", *_OTHER_MEMBERS, *_EVERY_ITEM, *_OTHER_ITEMS}
)
_OWN_VALUES: Final = ("enum", "const", "required")


@dataclass(slots=True)
class Node:
    """One subschema: its own cost and its edges."""

    weight: int = 1
    chain: int = 1
    positions: int = 0
    unique: bool = False
    unevaluated: bool = False
    in_place: list["Node"] = field(default_factory=list)
    members: dict[str, "Node"] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    every_member: list["Node"] = field(default_factory=list)
    other_members: list["Node"] = field(default_factory=list)
    prefix: list["Node"] = field(default_factory=list)
    every_item: list["Node"] = field(default_factory=list)
    other_items: list["Node"] = field(default_factory=list)
    rank: int = -1


Counts = dict[int, int]  # node rank -> how often it is evaluated against one value


class SchemaGraph:
    """The subschemas of one document, in an order in which in-place edges lead only forwards.

    References are rewritten in the document, in the spelling that the validator surely reads.

    Raises:
        SchemaRejected: the schema is too large or deep, or a reference leaves the document, loops or explodes.
    """

    def __init__(self, document: Json, draft: int = LATEST_DRAFT) -> None:
        self._document = document
        self._nodes: dict[int, Node] = {}
        self._shared: dict[str, Node] = {}
        self._waiting: list[tuple[dict[str, Json], Node]] = []
        self.has_alternatives = False
        self.pattern_count = 0
        self.pattern_positions = 0
        _check_size(document)
        self._references = References(document, draft)
        self.root = self._node(document)
        while self._waiting:
            self._link(*self._waiting.pop())
        self.has_references = self._references.found
        self.order = _in_place_order(list(self._nodes.values()))
        self.chain = max((node.chain for node in self.order), default=1)
        self.unevaluated = any(node.unevaluated for node in self.order)
        self._check_static()

    def _node(self, schema: Json) -> Node | None:
        if not isinstance(schema, dict):
            return None
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = Node()
            self._waiting.append((schema, node))
        return node

    def _many(self, schemas: Json) -> list[Node]:
        values = schemas.values() if isinstance(schemas, dict) else schemas if isinstance(schemas, list) else ()
        return [node for value in values if (node := self._node(value))]

    def _link(self, schema: dict[str, Json], node: Node) -> None:
        node.weight = 1 + len(schema) + sum(json_size(schema[key]) for key in _OWN_VALUES if key in schema)
        node.unique = schema.get("uniqueItems") is True
        node.unevaluated = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        for key, value in list(schema.items()):
            if key in _IN_PLACE_ONE:
                node.in_place += self._many([value])
            elif key in _IN_PLACE_MANY:
                node.in_place += self._many(value)
            elif key in REFERENCES and isinstance(value, str):
                node.in_place += self._meanings(value)
                schema[key] = self._references.spelling(value)
            elif key in _CHILDREN:
                self._link_children(key, value, node)
        if "pattern" in schema or "patternProperties" in schema:
            self._note_patterns(schema, node)

    def _meanings(self, reference: str) -> list[Node]:
        """The target of a reference; for several schemas of one name, a node that all references to it share."""
        targets = self._references.targets(reference)
        if len(targets) < 2:
            return self._many(targets)
        shared = self._shared.get(name := self._references.spelling(reference))
        if shared is None:
            shared = self._shared[name] = Node(in_place=self._many(targets))
            self._nodes[id(shared)] = shared
        return [shared]

    def _link_children(self, key: str, value: Json, node: Node) -> None:
        if key == "properties" and isinstance(value, dict):
            node.members = {name: target for name, part in value.items() if (target := self._node(part))}
            node.named = frozenset(value)
            node.weight += len(value) // 8
        elif key == "propertyNames":
            names = self._many([value])
            node.in_place += names  # patterns matched against names count at the object that has the names
            node.every_member += names
        elif key == "patternProperties":
            node.every_member += self._many(value)
        elif key in _OTHER_MEMBERS:
            node.other_members += self._many([value])
        elif key in _EVERY_ITEM:
            node.every_item += self._many([value])
        elif isinstance(value, list):
            node.prefix = self._by_index(value)
        else:
            node.other_items += self._many([value])

    def _by_index(self, schemas: list[Json]) -> list[Node]:
        return [self._node(value) or Node() for value in schemas]

    def _note_patterns(self, schema: dict[str, Json], node: Node) -> None:
        named = schema.get("patternProperties")
        patterns = [(text, "patternProperties") for text in (named if isinstance(named, dict) else ())]
        if isinstance(schema.get("pattern"), str):
            patterns.append((schema["pattern"], "pattern"))
        node.positions = sum(self._positions(text, keyword, schema) for text, keyword in patterns)
        self.pattern_count += len(patterns)
        self.pattern_positions += node.positions
        if self.pattern_count > MAX_PATTERNS or self.pattern_positions > MAX_PATTERN_POSITIONS:
            raise SchemaRejected("the schema holds too many or too large regular expressions")

    def _positions(self, pattern: str, keyword: str, schema: dict[str, Json]) -> int:
        try:
            return pattern_positions(pattern)
        except PatternNotRun:
            raise SchemaRejected(f"{place_in(self._document, schema)}.{keyword} {NOT_RUN}") from None

    def _check_static(self) -> None:
        if self.chain > MAX_IN_PLACE_CHAIN:
            raise SchemaRejected(f"the schema applies over {MAX_IN_PLACE_CHAIN} subschemas one inside the other")
        eager = {node.rank: 1 for node in self.order if node.unevaluated}
        if eager and sum(spread(eager, self.order, 1, MAX_EAGER_PATHS).values()) > MAX_EAGER_PATHS:
            raise SchemaRejected("the schema combines unevaluated members with too many alternatives")


def spread(counts: Counts, order: list[Node], factor: int, limit: int) -> Counts:
    """How often each node is evaluated against one value, from the counts of the first nodes.

    `factor` is how often a node with `unevaluated*` evaluates its alternatives; it stops soon after `limit`.
    """
    reached = dict(counts)
    waiting = list(counts)
    heapq.heapify(waiting)
    total = 0
    while waiting and total <= limit:
        rank = heapq.heappop(waiting)
        node = order[rank]
        times = reached[rank] * (factor if node.unevaluated else 1)
        total += times * len(node.in_place)
        for target in node.in_place:
            if target.rank not in reached:
                reached[target.rank] = 0
                heapq.heappush(waiting, target.rank)
            reached[target.rank] += times
    return reached


def _in_place_order(nodes: list[Node]) -> list[Node]:
    """Rank the nodes so that in-place edges lead to higher ranks, and set the longest chain below each node.

    Raises:
        SchemaRejected: a subschema applies itself to the same value without end.
    """
    incoming = dict.fromkeys(map(id, nodes), 0)
    for node in nodes:
        for target in node.in_place:
            incoming[id(target)] += 1
    order = [node for node in nodes if not incoming[id(node)]]
    for node in order:  # grows during the loop
        for target in node.in_place:
            target.chain = max(target.chain, node.chain + 1)
            incoming[id(target)] -= 1
            if not incoming[id(target)]:
                order.append(target)
    if len(order) < len(nodes):
        raise SchemaRejected("the schema refers to itself without end")
    for rank, node in enumerate(order):
        node.rank = rank
    return order


def _check_size(document: Json) -> None:
    """Bound all JSON values of the document, also data, because its readers recurse over all of it."""
    stack: list[tuple[Json, int]] = [(document, 1)]
    seen = 0
    while stack:
        value, depth = stack.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        seen += 1 + len(children)
        if (depth > MAX_SCHEMA_DEPTH and children) or seen > MAX_SCHEMA_NODES:
            raise SchemaRejected(f"the schema is nested over {MAX_SCHEMA_DEPTH} deep or has too many parts")
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))


def json_size(value: Json) -> int:
    """The number of JSON values in a value of bounded depth, itself included."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(json_size, children))
