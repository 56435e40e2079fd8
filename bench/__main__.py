"""Measure everything, print a table, write build/bench.json: `python -m bench [PART …]`, all parts by default."""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.cold import starts
from bench.contenders import NOBODY, environment
from bench.gateway import load
from bench.kernel import assignments
from bench.report import table, with_ratios
from bench.scratch import Scratch, prepare
from bench.worker import paid
from bench.worker.hiring import deployed
from local.aws import embedded_aws, provision
from local.gateway.lambdas.variables import ROOT

PARTS: Final = ("cold", "warm", "calls", "load", "paid", "kernel", "assign")
PAID_ROUNDS: Final = 4  # per cold round
WARM_ROUNDS: Final = 4  # per cold round; many short rounds spread a busy moment over all contenders


def main() -> None:
    """Run the requested parts."""
    arguments = _arguments()
    scratch = prepare(arguments.scratch)
    figures: dict[str, float] = {"rounds": arguments.rounds}
    if "cold" in arguments.parts:
        figures |= cold_figures(scratch, arguments.rounds)
    if "warm" in arguments.parts:
        figures |= warm_figures(scratch, arguments.rounds * WARM_ROUNDS, arguments.calls)
    if {"calls", "load", "paid", "kernel", "assign"} & set(arguments.parts):
        figures |= aws_figures(scratch, arguments)
    figures = with_ratios(figures)
    print(table(figures))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def cold_figures(scratch: Scratch, rounds: int) -> dict[str, float]:
    """Median milliseconds until a handler asked for work, and from then until its first answer."""
    found = starts.measure(scratch, rounds)
    figures = {f"cold_{name}_ms": round(median(one.init for one in times), 1) for name, times in found.items()}
    firsts = {f"first_{name}_ms": round(median(one.first for one in times), 1) for name, times in found.items()}
    return figures | firsts


def warm_figures(scratch: Scratch, rounds: int, calls: int) -> dict[str, float]:
    """Median microseconds per call."""
    found = measured_apart(scratch, "runtime.warm", {"IN_MEMORY": "1"}, str(rounds), str(calls))
    return {f"warm_{name}_us": round(median(times), 1) for name, times in found.items()}


def aws_figures(scratch: Scratch, arguments: argparse.Namespace) -> dict[str, float]:
    """Counted requests, the gateway's rate, and paid tasks, over the embedded AWS."""
    figures: dict[str, float] = {}
    with embedded_aws(_free_port()) as endpoint:
        provision(deployed(), endpoint)
        if "calls" in arguments.parts:
            figures |= measured_apart(scratch, "runtime.calls", {"AWS_ENDPOINT_URL": endpoint})
            figures |= measured_apart(scratch, "worker.calls", {"AWS_ENDPOINT_URL": endpoint})
        if "load" in arguments.parts:
            figures |= {name: round(value, 1) for name, value in load.measure(endpoint, arguments.seconds).items()}
        if "paid" in arguments.parts:
            figures |= paid.measure(endpoint, arguments.rounds * PAID_ROUNDS)
        if "kernel" in arguments.parts:
            figures |= measured_apart(scratch, "kernel.commands", kernel_variables(endpoint), str(arguments.listed))
        if "assign" in arguments.parts:
            figures |= assignments.measure(endpoint)
    return figures


def kernel_variables(endpoint: str) -> dict[str, str]:
    """The variables of the kernel door's functions, over the embedded AWS, with every call allowed."""
    template = deployed()
    names = {"KERNEL_TABLE": "KernelTable", "DUE_TABLE": "DueTable", "BUCKET": "Bucket"}
    named = {f"PIECEWORK_{name}": template.physical_name(logical) for name, logical in names.items()}
    return {**named, "AWS_ENDPOINT_URL": endpoint, "PIECEWORK_POLICY_DEFAULT": "permissive"}


def measured_apart(scratch: Scratch, module: str, variables: dict[str, str], *arguments: str) -> Any:
    """The figures of a module that runs in a separate process, where all contenders can be imported."""
    copies = (scratch.path_of("functions"), str(scratch.folder / "baselines"))
    path = os.pathsep.join((*copies, str(ROOT), *sys.path))  # the checkout's own folders come last, behind the copies
    env = environment(scratch, "functions", NOBODY) | variables | {"PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = (sys.executable, "-S", "-W", "ignore", "-m", f"bench.{module}", str(out), *arguments)
        subprocess.run(command, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text("utf-8"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=15, help="the number of rounds for medians")
    parser.add_argument("--calls", type=int, default=50, help="the number of warm calls per round")
    parser.add_argument("--seconds", type=float, default=5, help="the length of each load")
    parser.add_argument("--listed", type=int, default=20_000, help="executions behind the kernel door's lists")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build" / "bench")
    return parser.parse_args()


if __name__ == "__main__":
    main()
