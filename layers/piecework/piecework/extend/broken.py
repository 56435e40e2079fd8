"""Executor modules that cannot be imported: which they are, where they break, and which executors they would have held.

One broken module is one executor's trouble. The others are served; who asks for this one gets 503 and nothing recorded.
Its executors' names are read from its text, since it cannot say them itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from piecework.errors import Unavailable

CLAIMED: Final = re.compile(r"""@executor\(\s*(?:name\s*=\s*)?(['"])([\w.-]{1,64})\1""")
REASON_CHARACTERS: Final = 300


class ExecutorBroken(Unavailable):
    """The executor's module cannot be imported; it can be asked again once it is mended."""


class Broken(NamedTuple):
    """One module that cannot be imported."""

    module: str
    names: tuple[str, ...]  # executors that its text declares, else its own name
    place: str  # file and line
    reason: str

    @classmethod
    def of(cls, module: str, file: str, error: BaseException) -> Broken:
        """What an import ended with."""
        text = _text(file)
        names = tuple(dict.fromkeys(match[2] for match in CLAIMED.finditer(text))) or (module.rpartition(".")[2],)
        reason = " ".join(f"{type(error).__name__}: {_said(error)}".split())
        return cls(module, names, f"{file}, line {_line(file, error)}", reason[:REASON_CHARACTERS])

    @property
    def told(self) -> str:
        """Everything that its author needs, in one line."""
        return f"{self.place}: {self.reason}"


def report(broken: Sequence[Broken]) -> None:
    """Write a line for each into the log of whoever has just looked for executors."""
    import logging  # and not at the top: nothing is broken in nearly every start

    for one in broken:
        logging.getLogger(__name__).warning("executor module broken: %s", one.told)


def refusal(modules: Sequence[str]) -> ExecutorBroken:
    """The answer to who asks for one of them; file and reason stay in the log."""
    names = ", ".join(module.rpartition(".")[2] for module in modules)
    return ExecutorBroken(f"the executor module {names} cannot be loaded; its operator's log says why; try again later")


def _said(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _line(file: str, error: BaseException) -> int:
    """The last line of the module itself that the error passed through."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename == file and error.lineno:
        return error.lineno
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return own[-1] or 1 if own else 1


def _text(file: str) -> str:
    try:
        return Path(file).read_text("utf-8", "replace")
    except OSError:
        return ""
