"""The parts of a run: each measures one thing, and gives its samples by the names of the report."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import layers
from bench.cold import starts
from bench.contenders import NOBODY, OTHERS, OWN, environment
from bench.figures import Samples, percentiles
from bench.gateway import load
from bench.kernel import assignments
from bench.scratch import Scratch
from bench.worker import paid
from bench.worker.hiring import deployed
from local.aws import embedded_aws, provision
from local.gateway.lambdas.variables import ROOT

PAID_ROUNDS: Final = 4  # per cold round
WARM_ROUNDS: Final = 4  # per cold round; many short rounds spread a busy moment over all contenders
PERCENTILES: Final = (50, 90, 99)


class Run(NamedTuple):
    """What is measured, and how long."""

    scratch: Scratch
    beside: Scratch | None  # another tree's functions
    rounds: int
    calls: int
    seconds: float
    listed: int
    starts: int


def cold_part(run: Run) -> Samples:
    """Starts of every function and of what stands beside it."""
    entrants = [(run.scratch, one) for one in (*OTHERS, *OWN)]
    if run.beside:
        entrants += [(run.beside, replace(one, name=f"{one.name}_beside")) for one in OWN]
    return _joined(_of_starts(name, times) for name, times in starts.measure(entrants, run.rounds).items())


def starts_part(run: Run) -> Samples:
    """Many starts in a row of the two functions whose callers wait most."""
    entrants = [(run.scratch, one) for one in OWN if one.name in starts.IN_A_ROW]
    return _joined(_in_a_row(name, times) for name, times in starts.measure(entrants, run.starts).items())


def warm_part(run: Run) -> Samples:
    """Microseconds per call."""
    rounds = run.rounds * WARM_ROUNDS
    found = measured_apart(run.scratch, "runtime.warm", {"IN_MEMORY": "1"}, str(rounds), str(run.calls))
    return {f"warm_{name}_us": times for name, times in found.items()}


def layers_part(run: Run) -> Samples:
    """The sizes of the layers."""
    return layers.measure()


def calls_part(run: Run, endpoint: str) -> Samples:
    """Requests of a piece and of a paid task."""
    over = {"AWS_ENDPOINT_URL": endpoint}
    return {
        **measured_apart(run.scratch, "runtime.calls", over),
        **measured_apart(run.scratch, "worker.calls", over),
    }


def load_part(run: Run, endpoint: str) -> Samples:
    """What the local gateway takes."""
    return load.measure(endpoint, run.seconds)


def paid_part(run: Run, endpoint: str) -> Samples:
    """The time of a paid task."""
    return paid.measure(endpoint, run.rounds * PAID_ROUNDS)


def kernel_part(run: Run, endpoint: str) -> Samples:
    """The cost of the kernel door's commands."""
    found: Samples = measured_apart(run.scratch, "kernel.commands", kernel_variables(endpoint), str(run.listed))
    return found


def assign_part(run: Run, endpoint: str) -> Samples:
    """The time until an agent has its execution, and a monitor its event."""
    return assignments.measure(endpoint)


ALONE: Final[Mapping[str, Callable[[Run], Samples]]] = {
    "cold": cold_part,
    "warm": warm_part,
    "layers": layers_part,
    "starts": starts_part,
}
OVER_AWS: Final[Mapping[str, Callable[[Run, str], Samples]]] = {
    "calls": calls_part,
    "load": load_part,
    "paid": paid_part,
    "kernel": kernel_part,
    "assign": assign_part,
}
PARTS: Final = (*ALONE, *OVER_AWS)
USUAL: Final = tuple(part for part in PARTS if part != "starts")


def measured(run: Run, parts: Collection[str]) -> dict[str, Any]:
    """The samples of these parts."""
    found: dict[str, Any] = {"rounds": run.rounds}
    for name in (name for name in ALONE if name in parts):
        found |= ALONE[name](run)
    if not OVER_AWS.keys().isdisjoint(parts):
        with _aws() as endpoint:
            for name in (name for name in OVER_AWS if name in parts):
                found |= OVER_AWS[name](run, endpoint)
    return found


def kernel_variables(endpoint: str) -> dict[str, str]:
    """The variables of the kernel door's functions, over the embedded AWS, with every call allowed."""
    template = deployed()
    names = {"KERNEL_TABLE": "KernelTable", "DUE_TABLE": "DueTable", "BUCKET": "Bucket"}
    named = {f"PIECEWORK_{name}": template.physical_name(logical) for name, logical in names.items()}
    return {**named, "AWS_ENDPOINT_URL": endpoint, "PIECEWORK_POLICY_DEFAULT": "permissive"}


def measured_apart(scratch: Scratch, module: str, variables: Mapping[str, str], *arguments: str) -> Any:
    """The figures of a module that runs in a separate process, where all contenders can be imported."""
    copies = (scratch.path_of("functions"), str(scratch.folder / "baselines"))
    path = os.pathsep.join((*copies, str(ROOT), *sys.path))  # the checkout's own folders come last, behind the copies
    env = environment(scratch, "functions") | {"AWS_ENDPOINT_URL": NOBODY, **variables, "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = (sys.executable, "-S", "-W", "ignore", "-m", f"bench.{module}", str(out), *arguments)
        subprocess.run(command, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text("utf-8"))


def _of_starts(name: str, times: list[starts.Start]) -> Samples:
    return {
        f"cold_{name}_ms": [one.cold for one in times],
        f"cpu_{name}_ms": [one.cpu for one in times],
        f"first_{name}_ms": [one.first for one in times],
        f"answered_{name}_ms": [one.cold + one.first for one in times],
        f"memory_{name}_mb": [one.memory for one in times],
    }


def _in_a_row(name: str, times: list[starts.Start]) -> Samples:
    found = percentiles([one.cold for one in times], PERCENTILES)
    told = {f"starts_{name}_p{number}_ms": value for number, value in found.items()}
    return {**told, f"starts_{name}_max_ms": max(one.cold for one in times)}


def _joined(parts: Iterator[Samples]) -> Samples:
    return {name: sample for part in parts for name, sample in part.items()}


@contextmanager
def _aws() -> Iterator[str]:
    with embedded_aws() as endpoint:
        provision(deployed(), endpoint)
        yield endpoint
