"""The stored form of an execution: flat, each member under the name that it has had since the first version.

Members that a record of another version has besides are left out; those that it lacks get their defaults.
"""

from collections.abc import Mapping
from typing import Final

from piecework.durable.forgotten import Forgotten
from piecework.jsons import Json
from piecework.jsons.stored import known
from piecework.values import asdict
from piecework.worker.record.execution import Execution
from piecework.worker.record.states import State
from piecework.worker.record.values import Attempt, BoundPayment, Failure, Kept, Lease, Settlement, TaskOutcome

Part = type[BoundPayment | Settlement | Lease | Attempt | TaskOutcome]
PARTS: Final[Mapping[str, Part]] = {
    "payment": BoundPayment,
    "settlement": Settlement,
    "lease": Lease,
    "attempt": Attempt,
    "outcome": TaskOutcome,
}
STORED_AS: Final[Mapping[tuple[str, str], str]] = {  # where the stored name is another one
    ("payment", "document"): "payment",
    ("payment", "version"): "payment_version",
    ("settlement", "status"): "payment_status",
    ("settlement", "calls"): "settle_calls",
    ("settlement", "last_call_without_hash_ms"): "blind_ms",
    ("settlement", "last_call_ms"): "sent_ms",
    ("settlement", "refusals"): "rounds",
    ("lease", "token"): "lease",
    ("lease", "until_ms"): "lease_until_ms",
    ("attempt", "number"): "attempt",
    ("attempt", "most"): "attempts",
}

LATER: Final = ("refund", "atomic")  # members of newer records, left out of those that do not have them


def flat(execution: Execution) -> dict[str, Json]:
    """The record as one object."""
    members: dict[str, Json] = asdict(execution)
    if execution.forgotten is None:  # as all records but very few, whose form stays as it was
        del members["forgotten"]
    for part in PARTS:
        members |= {STORED_AS.get((part, name), name): value for name, value in members.pop(part).items()}
    for name in LATER:
        if members[name] is None:
            del members[name]
    return members


def from_flat(members: Mapping[str, Json]) -> Execution:
    """The record that `flat` made, or the code of another version.

    Raises:
        TypeError: a member without a default is missing.
    """
    read = {**members, "hashes": tuple(members["hashes"]), "items": tuple(members["items"])}
    read |= {name: known(Kept, members[name]) for name in ("input", "result") if members[name] is not None}
    read |= {"failure": known(Failure, members["failure"])} if members["failure"] is not None else {}
    read |= {"forgotten": known(Forgotten, members["forgotten"])} if members.get("forgotten") else {}
    parts = {part: known(kind, _own(part, kind, read)) for part, kind in PARTS.items()}
    return known(Execution, {**read, **parts, "state": State(members["state"])})


def _own(part: str, kind: Part, members: Mapping[str, Json]) -> dict[str, Json]:
    """The members of one part, under its own names."""
    names = {name: STORED_AS.get((part, name), name) for name in kind.__match_args__}
    return {name: members[stored] for name, stored in names.items() if stored in members}
