"""Measure, print a table, write build/bench.json: `python -m bench [PART …]`; without PART, what `make bench` does.

With --docs, all parts are measured, and the figures, tables and the picture of docs/performance.md are written.
"""

import argparse
import json
from pathlib import Path

from bench import page
from bench.figures import medians, ratios, spreads
from bench.machine import head, load, machine
from bench.parts import PARTS, USUAL, Run, measured
from bench.report import PAIRS, table
from bench.scratch import prepare
from local.gateway.lambdas.variables import ROOT


def main() -> None:
    """Run the requested parts."""
    arguments = _arguments()
    of = machine()
    samples = measured(_run(arguments), arguments.parts or (PARTS if arguments.docs else USUAL))
    samples = {**ratios(samples, PAIRS), **samples}
    of["load_after"] = load()
    figures, between = medians(samples), spreads(samples)
    print(head(of), table(figures, between), sep="\n")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    told = {"machine": of, **figures, "spread": between}
    arguments.out.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if arguments.docs:
        page.write(told)


def _run(arguments: argparse.Namespace) -> Run:
    scratch = prepare(arguments.scratch)
    beside = arguments.beside and prepare(arguments.scratch.with_name("bench-beside"), arguments.beside.resolve())
    return Run(
        scratch, beside, arguments.rounds, arguments.calls, arguments.seconds, arguments.listed, arguments.starts
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--beside", type=Path, metavar="TREE", help="start another tree's functions in the same rounds")
    parser.add_argument("--docs", action="store_true", help="write the figures into the documentation")
    parser.add_argument("--rounds", type=int, default=15, help="the number of rounds for medians")
    parser.add_argument("--calls", type=int, default=50, help="the number of warm calls per round")
    parser.add_argument("--seconds", type=float, default=2, help="the length of each load")
    parser.add_argument("--listed", type=int, default=20_000, help="executions behind the kernel door's lists")
    parser.add_argument("--starts", type=int, default=200, help="the starts in a row of the part of that name")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build" / "bench")
    return parser.parse_args()


if __name__ == "__main__":
    main()
