"""Knowledge seeds: earlier answers that a kernel offers with a task (runtime specification 2.4); never trusted."""

from collections.abc import Mapping
from typing import Final

from piecework.extend.executors import Task
from piecework.jsons import Json

EXACT: Final = "Exact"
DEFAULT_PROFILE: Final = "default"


def hits(task: Task) -> list[Mapping[str, Json]]:
    """The seed's hits, best first; empty at the verify stage, whose answer must not depend on a seed."""
    if task.seed is None or task.stage == "verify":
        return []
    found = task.seed.get("hits")
    return [hit for hit in found if isinstance(hit, dict)] if isinstance(found, list) else []


def reusable_answer(task: Task) -> tuple[Json] | None:
    """At the decide stage: the exact hit's earlier answer in a one-tuple, when it fits this task's schema.

    A seed does not say which profile made it, and a kernel offers it under any profile. So only the default profile
    reuses the earlier answer; the other profiles answer anew.
    """
    if task.stage != "decide" or task.profile != DEFAULT_PROFILE:
        return None
    for hit in hits(task):
        if hit.get("hit_type") == EXACT and task.problem(hit.get("reuse_payload")) is None:
            return (hit.get("reuse_payload"),)
    return None
