"""Executor modules that cannot be imported: their names, the place of the error, and the executors that they declare.

A broken module stops only its own executors. The others are served; a request for a broken one gets 503, and it is not
recorded. The names of its executors are read from its source, because the module cannot register them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from piecework.errors import Unavailable

CLAIMED: Final = r"""@executor\(\s*(?:name\s*=\s*)?(['"])([\w.-]{1,64})\1"""
REASON_CHARACTERS: Final = 300


class ExecutorBroken(Unavailable):
    """The executor's module cannot be imported; the same request may be sent again once it is repaired."""


class Broken(NamedTuple):
    """One module that cannot be imported."""

    module: str
    names: tuple[str, ...]  # executors that its source declares, else its own name
    place: str  # file and line
    reason: str

    @classmethod
    def of(cls, module: str, file: str, error: BaseException) -> Broken:
        """The broken module for an import's error."""
        text = _text(file)
        names = tuple(dict.fromkeys(match[2] for match in re.finditer(CLAIMED, text))) or (module.rpartition(".")[2],)
        reason = " ".join(f"{type(error).__name__}: {_said(error)}".split())
        return cls(module, names, f"{file}, line {_line(file, error)}", reason[:REASON_CHARACTERS])

    @property
    def in_a_line(self) -> str:
        """The place and the reason in one line, for the module's author."""
        return f"{self.place}: {self.reason}"


def report(broken: Sequence[Broken]) -> None:
    """Log a line for each broken module."""
    import logging  # not at the top: nearly every start finds all modules whole

    for one in broken:
        logging.getLogger(__name__).warning("executor module broken: %s", one.in_a_line)


def refusal(modules: Sequence[str]) -> ExecutorBroken:
    """The failure for a request that needs one of them; file and reason are only in the log."""
    names = ", ".join(module.rpartition(".")[2] for module in modules)
    return ExecutorBroken(f"the executor module {names} cannot be loaded; the operator's log says why; try again later")


def _said(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _line(file: str, error: BaseException) -> int:
    """The last line of the module itself in the error's traceback."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename == file and error.lineno:
        return error.lineno
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return own[-1] or 1 if own else 1


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""
