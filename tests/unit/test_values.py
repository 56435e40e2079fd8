"""Value classes behave as the standard library's dataclasses do, and cost less to define."""

import copy
import dataclasses
import importlib
import pickle
import pkgutil
import subprocess
import sys
import threading
from enum import StrEnum
from typing import get_type_hints

import pytest

import piecework
from piecework import values


def pair(values_or_dataclasses, **options):
    """The same classes, made by either module."""
    dataclass, field = values_or_dataclasses.dataclass, values_or_dataclasses.field

    @dataclass(**options)
    class Point:
        """A point."""

        x: int
        y: int = 2
        seen: list = field(default_factory=list)
        secret: str = field(default="s", repr=False)
        check: object = field(default=None, repr=False, compare=False)

        @property
        def total(self):
            return self.x + self.y

    @dataclass(**options)
    class Named(Point):
        name: str = "n"

    @dataclass(**options)
    class Empty:
        """Nothing."""

    return Point, Named, Empty


OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
]
ARGUMENTS = [
    ((1,), {}),
    ((1, 3, [4]), {"secret": "t"}),
    ((), {"x": 1, "check": print}),
    ((), {}),
    ((1,), {"x": 1}),
    ((1, 2, [], "s", None, 9, 9), {}),
    ((1,), {"other": 1}),
]


def outcome(make):
    try:
        return make()
    except TypeError:
        return TypeError


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_value_is_made_shown_and_turned_into_a_dict_as_by_the_standard_library(options, arguments):
    positional, named = arguments
    for ours, theirs in zip(pair(values, **options), pair(dataclasses, **options), strict=True):
        made, expected = (
            outcome(lambda c=ours: c(*positional, **named)),
            outcome(lambda c=theirs: c(*positional, **named)),
        )

        assert repr(made).rpartition("<locals>")[2] == repr(expected).rpartition("<locals>")[2]
        if expected is not TypeError:
            assert values.asdict(made) == dataclasses.asdict(made) == dataclasses.asdict(expected)


@pytest.mark.parametrize("options", OPTIONS)
def test_values_are_equal_by_class_and_compared_members(options):
    point, named, empty = pair(values, **options)

    assert point(1, check=1) == point(1, check=2)
    assert point(1) != point(2)
    assert point(1) != named(1)
    assert point(1).__eq__((1, 2)) is NotImplemented
    assert empty() == empty()
    assert point(1).seen is not point(1).seen
    assert point(1).total == 3


@pytest.mark.parametrize("options", OPTIONS)
def test_a_value_has_a_hash_when_it_is_frozen(options):
    point, _, _ = pair(values, **options)

    if options.get("frozen"):
        assert hash(point(1, seen=())) == hash(point(1, seen=()))
    else:
        with pytest.raises(TypeError):
            hash(point(1))


@pytest.mark.parametrize("options", OPTIONS)
def test_only_a_value_that_is_not_frozen_can_be_changed(options):
    value = pair(values, **options)[0](1)

    if options.get("frozen"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            del value.x
    else:
        value.x = 2
    assert value.x == (1 if options.get("frozen") else 2)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_value_with_slots_has_no_dict(options):
    for cls in pair(values, **options):
        assert hasattr(cls.__new__(cls), "__dict__") != options.get("slots", False)
        assert cls.__weakref__ if not options.get("slots") else not hasattr(cls, "__weakref__")


def test_what_the_standard_library_asks_for_is_made_once_for_each_class(monkeypatch):
    ours, derived, _ = pair(values, frozen=True, slots=True)
    made, make = [], dataclasses.make_dataclass
    monkeypatch.setattr(dataclasses, "make_dataclass", lambda *args, **kw: made.append(args[0]) or make(*args, **kw))

    for _ in range(3):
        assert dataclasses.replace(ours(1), y=5) == ours(1, 5)
        assert dataclasses.replace(derived(1), name="m") == derived(1, name="m")

    assert sorted(made) == ["Named", "Point"]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_standard_library_takes_the_values(options):
    for ours, theirs in zip(pair(values, **options)[:2], pair(dataclasses, **options)[:2], strict=True):
        made = ours(1)

        assert dataclasses.is_dataclass(made)
        assert dataclasses.is_dataclass(ours)
        assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
        assert dataclasses.replace(made, y=5) == values.replace(made, y=5) == ours(1, 5)
        assert ours.__match_args__ == theirs.__match_args__
        assert ours.__doc__ is theirs.__doc__ or ours.__doc__ is None
        assert get_type_hints(ours) == get_type_hints(theirs)
        with pytest.raises(TypeError):
            values.replace(made, other=1)

        @dataclasses.dataclass(**options)
        class Further(ours):
            more: int = 7

        assert Further(1).more == 7


@pytest.mark.parametrize("options", OPTIONS)
def test_values_are_copied(options):
    value = pair(values, **options)[0](1, seen=[[2]])

    assert copy.copy(value) == value
    assert copy.copy(value).seen is value.seen
    assert copy.deepcopy(value) == value
    assert copy.deepcopy(value).seen is not value.seen


@values.dataclass(frozen=True, slots=True)
class Pickled:
    x: int
    y: list


def test_a_value_survives_pickle():
    assert pickle.loads(pickle.dumps(Pickled(1, [2]))) == Pickled(1, [2])


def test_match_takes_a_value_apart():
    match Pickled(1, [2]):
        case Pickled(x, y):
            assert (x, y) == (1, [2])


@dataclasses.dataclass
class Theirs:
    z: int


class Colour(StrEnum):
    RED = "red"


def test_values_inside_values_and_containers_become_dicts_and_other_members_stay():
    inner = Pickled(1, [Colour.RED])

    made = values.asdict(Pickled(Colour.RED, [inner, {"a": (inner,)}, Theirs(3)]))

    assert made == dataclasses.asdict(Pickled(Colour.RED, [inner, {"a": (inner,)}, Theirs(3)]))
    assert made == {"x": "red", "y": [{"x": 1, "y": ["red"]}, {"a": ({"x": 1, "y": ["red"]},)}, {"z": 3}]}


def test_an_own_method_stays():
    @values.dataclass(frozen=True, slots=True)
    class Loud:
        text: str

        def __repr__(self):
            return self.text.upper()

    assert repr(Loud("a")) == "A"


def all_classes():
    names = [found.name for found in pkgutil.walk_packages(piecework.__path__, "piecework.")]
    for name in names:
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if isinstance(cls, type) and "__declared__" in vars(cls) and cls.__module__ == name:
                yield cls


def test_no_class_of_the_package_asks_for_what_only_the_standard_library_does():
    for cls in all_classes():
        declared = str(cls.__annotations__)
        assert not any(word in declared for word in ("ClassVar", "InitVar", "KW_ONLY")), cls
        assert not hasattr(cls, "__post_init__"), cls


def test_a_class_is_defined_without_a_compiler_or_inspect():
    code = (
        "import builtins, sys\n"
        "from piecework import values\n"
        "compiled = []\n"
        "kept = builtins.exec\n"
        "builtins.exec = lambda *given: (compiled.append(1), kept(*given))\n"
        "A = values.dataclass(frozen=True, slots=True)(type('A', (), {'__annotations__': {'x': int}}))\n"
        "print(len(compiled), A(1), A(2), len(compiled), 'inspect' in sys.modules, 'dataclasses' in sys.modules)\n"
    )
    path = str(next(iter(piecework.__path__))).removesuffix("piecework")

    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )

    assert said.stdout.split() == ["0", "A(x=1)", "A(x=2)", "1", "False", "False"]


def test_threads_that_make_the_first_value_at_once_all_get_one():
    before, made, threads = sys.getswitchinterval(), [], 8
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            Point, Named, _ = pair(values, frozen=True, slots=True)
            first = vars(Point)["__init__"]
            together = threading.Barrier(threads)

            def make(kind, together=together):
                together.wait()
                made.append(kind(1))

            running = [threading.Thread(target=make, args=[kind]) for kind in (Point, Named) * (threads // 2)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            late = object.__new__(Point)
            first(late, 1)  # which a thread had looked up before another one replaced it
            made.append(late)
    finally:
        sys.setswitchinterval(before)

    assert len(made) == 30 * (threads + 1) and {(one.x, one.y) for one in made} == {(1, 2)}
