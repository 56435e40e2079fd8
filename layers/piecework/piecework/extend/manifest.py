"""The registered executors, policies and agent-event hooks of the `executors` package.

At build time `python -m piecework.extend.manifest OUT` imports every module once and writes `manifest.json` into the
layer. So a running function knows the registered executors without importing them, and imports only the one that it
needs. Without a manifest (in a checkout) all modules are imported; a module whose import fails is listed as broken, and
the others are served. With `--check` as OUT the command only lists the broken modules, also those of further folders.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from piecework.errors import SettingsError, TaskTypeUnknown, Unprocessable
from piecework.extend.broken import Broken, refusal, report

if TYPE_CHECKING:  # a function that only advertises does without these imports
    from piecework.extend.executors import Executor

PACKAGE: Final = "executors"
FILE_NAME: Final = "manifest.json"
CHECK: Final = "--check"
Door = Literal["runtime", "worker", "kernel"]
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Entry(NamedTuple):
    """One registered executor, as far as it is known without its import."""

    name: str
    module: str
    task_types: tuple[str, ...]
    profiles: tuple[str, ...]
    needs_tools: bool = False


class Manifest(NamedTuple):
    """The registered executors by name, the modules of policies by policy id, and those of hooks by event."""

    executors: tuple[Entry, ...]
    policies: Mapping[str, str] = NOTHING
    event_hooks: Mapping[str, str] = NOTHING
    broken: tuple[Broken, ...] = ()


def discover(extra_path: str = "") -> Manifest:
    """Import every module of the executors package and of the folders in `extra_path`; list what they register."""
    import pkgutil

    from piecework.extend.event_hook import registered as registered_hooks
    from piecework.extend.executors import registered
    from piecework.extend.policies import registered as registered_policies

    package = importlib.import_module(PACKAGE)
    folders = [folder for folder in extra_path.split(os.pathsep) if folder and folder not in package.__path__]
    package.__path__.extend(folders)
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    broken = tuple(found for name in names if (found := _imported(f"{PACKAGE}.{name}")))
    lost = {found.module for found in broken}  # entries of a module that failed later in its import do not count
    entries = (
        Entry(made.name, made.function.__module__, made.task_types, tuple(made.profiles), made.needs_tools)
        for made in registered().values()
        if _is_ours(made.function.__module__, lost)
    )
    policies = {
        policy_id: policy.evaluate.__module__
        for policy_id, policy in sorted(registered_policies().items())
        if policy.evaluate.__module__ not in lost
    }
    hooks = {
        event_type: hook.__module__
        for event_type, hook in sorted(registered_hooks().items())
        if _is_ours(hook.__module__, lost)
    }
    return Manifest(tuple(sorted(entries, key=lambda entry: entry.name)), policies, hooks, broken)


def _imported(module: str) -> Broken | None:
    """Import a module; returns the module as broken if that fails."""
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the edge to somebody else's code
        from importlib.util import find_spec

        spec = find_spec(module)
        return Broken.of(module, str(spec.origin) if spec else module, error)
    return None


def _is_ours(module: str, lost: Collection[str]) -> bool:
    return module.startswith(f"{PACKAGE}.") and module not in lost


def load(extra_path: str = "") -> Manifest:
    """The manifest from the build; without one, or with an `extra_path`, the result of `discover`."""
    package = importlib.import_module(PACKAGE)
    written = os.path.join(next(iter(package.__path__)), FILE_NAME)  # pathlib takes 5 ms to import
    if extra_path or not os.path.isfile(written):
        found = discover(extra_path)
        report(found.broken)
        return found
    with open(written, encoding="utf-8") as file:
        data = json.load(file)
    entries = (
        Entry(
            entry["name"],
            entry["module"],
            tuple(entry["task_types"]),
            tuple(entry["profiles"]),
            entry.get("needs_tools", False),  # absent in a manifest of older code
        )
        for entry in data["executors"]
    )
    return Manifest(tuple(entries), data["policies"], data["event_hooks"])


def write(manifest: Manifest, out: str) -> None:
    """Write the manifest where `load` finds it."""
    entries = [entry._asdict() for entry in manifest.executors]
    members = {"executors": entries, "policies": {**manifest.policies}, "event_hooks": {**manifest.event_hooks}}
    with open(out, "w", encoding="utf-8") as file:
        file.write(json.dumps(members, indent=1) + "\n")


def runs_at(door: Door, entry: Entry) -> bool:
    """Whether a door can run an executor: tools exist only at the kernel door."""
    return door == "kernel" or not entry.needs_tools


class Bundle:
    """The executors that one door can run, and which of them serves a task; the door lists and accepts only these.

    `default` is the executor for tasks that do not name one, chosen by the door's operator; empty refuses such tasks.
    """

    def __init__(
        self, manifest: Manifest, default: str = "", strict_task_types: bool = False, *, door: Door = "runtime"
    ) -> None:
        self.manifest = manifest
        self.door = door
        self.default = default
        self.strict_task_types = strict_task_types
        if default and default not in (*self.names, *self.broken_names):
            raise SettingsError(f"the default executor {default!r} is not one that the {door} door can run")

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The executors that this door can run, by name."""
        return tuple(entry for entry in self.manifest.executors if runs_at(self.door, entry))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(entry.name for entry in self.entries)

    @cached_property
    def broken_names(self) -> tuple[str, ...]:
        """The names of executors whose modules cannot be imported."""
        return tuple(name for broken in self.manifest.broken for name in broken.names)

    @cached_property
    def _by_name(self) -> Mapping[str, Entry]:
        return {entry.name: entry for entry in self.entries}

    @cached_property
    def _default(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.name == self.default)

    @cached_property
    def _by_task_type(self) -> Mapping[str, Entry]:
        """The default executor serves its own types; of the other executors the first by name serves a type."""
        claims = [*reversed(self.entries), *self._default]
        return {task_type: entry for entry in claims for task_type in entry.task_types}

    @cached_property
    def task_types(self) -> tuple[str, ...]:
        """Every task type an executor names, the default executor's first."""
        own = tuple(task_type for entry in self._default for task_type in entry.task_types)
        return own + tuple(sorted(set(self._by_task_type) - set(own)))

    @cached_property
    def profiles(self) -> tuple[str, ...]:
        """Every profile of an executor that a task can reach, the default executor's first."""
        own = tuple(profile for entry in self._default for profile in entry.profiles)
        reached = [*self._default, *self._by_task_type.values()]
        others = {profile for entry in reached for profile in entry.profiles}
        return own + tuple(sorted(others - set(own)))

    def serving(self, task_type: str) -> Executor:
        """The executor that serves a task type, imported when first needed; unknown types go to the default.

        Raises:
            TaskTypeUnknown: the type is not listed, and the default is empty or the bundle is strict about types.
            ExecutorBroken: the type is not listed, and a module that may serve it cannot be imported.
        """
        entry = self._by_task_type.get(task_type)
        if entry is None and self.manifest.broken:
            raise refusal([broken.module for broken in self.manifest.broken])
        if entry is None and (self.strict_task_types or not self.default):
            raise TaskTypeUnknown("task_type: not one of those in /capabilities")
        return self.named(entry.name if entry else self.default)

    def named(self, name: str) -> Executor:
        """The executor of that name.

        Raises:
            Unprocessable: this door does not run an executor of that name.
            ExecutorBroken: its module cannot be imported.
        """
        entry = self._by_name.get(name)
        if name in self.broken_names:
            raise refusal([broken.module for broken in self.manifest.broken if name in broken.names])
        if entry is None:
            raise Unprocessable("no executor has this name")
        from piecework.extend.executors import registered

        if broken := _imported(entry.module):
            report([broken])
            raise refusal([entry.module])
        return registered()[name]


def main(out: str, extra_path: str = "") -> int:
    """Write the manifest, unless `--check` is given; prints a line for each broken module, and then returns 1."""
    found = discover(extra_path)
    for broken in found.broken:
        print(broken.in_a_line, file=sys.stderr)
    if out != CHECK and not found.broken:
        write(found, out)
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
