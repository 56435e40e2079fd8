"""The exceptions of the package: one drawing that is true, and one habit for names."""

import importlib
import pkgutil
import re

import pytest

import piecework
from piecework import errors

FAMILIES = {"PieceworkError", "KernelError", "WorkerError", "SettingsError"}


@pytest.fixture(scope="module")
def modules():
    return [importlib.import_module(found.name) for found in pkgutil.walk_packages(piecework.__path__, "piecework.")]


def drawn_of(kind: type[Exception], depth: int = 0) -> list[tuple[int, str, str]]:
    """The family as the drawing shows it: depth, name, module where it is not `errors` itself."""
    module = kind.__module__.removeprefix("piecework.")
    here = (depth, kind.__name__, "" if kind.__module__ == errors.__name__ else module)
    below = {one for one in kind.__subclasses__() if one.__module__.startswith("piecework.")}
    return [here, *(line for one in sorted(below, key=lambda one: one.__name__) for line in drawn_of(one, depth + 1))]


def test_the_drawing_shows_every_failure_under_its_family(modules):
    lines = re.findall(r"^    ( *)(\w+)(?: +([\w.]+))?$", errors.__doc__, re.MULTILINE)

    assert [(len(indent) // 4, name, module) for indent, name, module in lines] == drawn_of(errors.PieceworkError)


def test_only_families_end_in_error(modules):
    raised = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == module.__name__
    }

    assert {name for name in raised if name.endswith(("Error", "Exception"))} == FAMILIES
