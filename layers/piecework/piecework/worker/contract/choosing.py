"""Which executor a contract is for: one rule for registration, the 402 and the claim (worker specification 3.2, V15).

An entry of `task.requirements` that is shaped like an executor's name must be one that this worker runs; the first such
entry is who works. Other text is free. Where none is named, the executor that was chosen for that works, if one was.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Self

from piecework.extend.broken import refusal
from piecework.extend.manifest import Bundle
from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.errors import ContractInvalid

RULE: Final = "V15"
EXECUTOR_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
SHOWN_CHARACTERS: Final = 60  # of a name that nobody has


@dataclass(frozen=True, slots=True)
class Offer:
    """What contracts may ask for: the executors that this door runs, and the one for contracts that do not name one."""

    names: tuple[str, ...]
    default: str = ""
    broken: tuple[str, ...] = ()

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """What a bundle's door can run."""
        return cls(bundle.names, bundle.default, bundle.broken_names)

    def name_for(self, document: Mapping[str, Json]) -> str:
        """The executor that a contract is for.

        Raises:
            ContractInvalid: its executor is not here, or it names none and the door has no default; rule V15.
            ExecutorBroken: it names one that cannot be loaded now.
        """
        wanted: Sequence[str] = document["task"].get("requirements", ())
        named = [entry for entry in wanted if entry in self.names]
        for entry in wanted:
            if entry in self.broken:
                raise refusal([entry])
            if entry not in self.names and EXECUTOR_NAME.fullmatch(entry):
                raise ContractInvalid(RULE, f"task.requirements: {entry[:SHOWN_CHARACTERS]!r} {self._not_run()}")
        if not named and not self.default:
            raise ContractInvalid(RULE, f"task.requirements names no executor; {self._run()}")
        return named[0] if named else self.default

    def _not_run(self) -> str:
        return f"is not an executor of this worker; {self._run()}"

    def _run(self) -> str:
        return f"name one of: {', '.join(self.names)}" if self.names else "this worker runs none"
