"""The tables and the picture of docs/performance.md, made from docs/performance.json: `python -m bench.page`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from bench.cold.starts import IN_A_ROW
from bench.contenders import OTHERS, OWN
from bench.kernel import CREATORS, CROWDED
from bench.machine import head
from bench.picture import picture
from bench.report import AT_MOST, BESIDE
from local.build.__main__ import LAYERS
from local.gateway.lambdas.variables import ROOT

DOCS: Final = ROOT / "docs"
FIGURES: Final = DOCS / "performance.json"
PICTURE: Final = DOCS / "performance.svg"
PAGE: Final = DOCS / "performance.md"
BEGIN, END = "<!-- what `python -m bench.page` writes -->", "<!-- end of it -->"
WHO: Final = {
    "bare": "an empty handler",
    "boto3": "a handler with one boto3 DynamoDB client",
    "idiomatic": "(a)",
    "fastapi": "(b)",
    "authorizer_boto3": "(d)",
    "kernel_fastapi": "(e)",
}
Row = Sequence[str]


def write(of: Mapping[str, Any]) -> None:
    """Put a run's figures into the documentation."""
    FIGURES.write_text(json.dumps(of, indent=1) + "\n", "utf-8")
    PICTURE.write_text(picture(of), "utf-8")
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), of), "utf-8")


def with_tables(page: str, of: Mapping[str, Any]) -> str:
    """The page with the tables of these figures in the place of the old ones."""
    written = "\n\n".join((BEGIN, *tables(of), END))
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: written, page, flags=re.DOTALL)


def tables(of: Mapping[str, Any]) -> Iterator[str]:
    """The run's machine, and a table for each kind of figure that the run has."""
    yield "```\n" + head(of["machine"]) + "\n```"
    goals = [(f"`{name}`", *_told(of, name), f"{AT_MOST[name]:g}", _kept(of, name)) for name in AT_MOST if name in of]
    yield from _table(("figure", "median", "10th to 90th percentile", "at most", ""), goals)
    beside = [(f"`{name}`", *_told(of, name)) for name in BESIDE if name in of]
    yield from _table(("beside the tree before", "median", "10th to 90th percentile"), beside)
    yield from _table(("cold", "start, ms", "of it on a processor", "first answer", "both", "memory, MB"), _starts(of))
    yield from _table(("starts in a row, ms", "p50", "p90", "p99", "slowest"), _in_a_row(of))
    clients = [f"{count} client{'s' if count > 1 else ''}" for count in CREATORS]
    yield from _table(("kernel, create to complete: lives a second", *clients), _lives(of))
    yield from _table(("layer", "MB", "zipped"), _layers(of))


def _starts(of: Mapping[str, Any]) -> Iterator[Row]:
    for one in (*OWN, *OTHERS):
        who = WHO.get(one.name, f"`{one.name}`")
        for name, told in ((one.name, who), (f"{one.name}_beside", f"{who} before")):
            if f"cold_{name}_ms" in of:
                times = (f"{of[f'{kind}_{name}_ms']:.0f}" for kind in ("cold", "cpu", "first", "answered"))
                yield told, *times, f"{of[f'memory_{name}_mb']:.0f}"


def _in_a_row(of: Mapping[str, Any]) -> Iterator[Row]:
    for name in IN_A_ROW:
        if f"starts_{name}_p50_ms" in of:
            yield f"`{name}`", *(f"{of[f'starts_{name}_{which}_ms']:.0f}" for which in ("p50", "p90", "p99", "max"))


def _lives(of: Mapping[str, Any]) -> Iterator[Row]:
    for agents, ending in CROWDED.items():
        names = [f"kernel_lives_per_second_of_{count}{ending}" for count in CREATORS]
        if names[0] in of:
            yield f"{agents} agent{'s' if agents > 1 else ''}", *(f"{of[name]:.0f}" for name in names)


def _layers(of: Mapping[str, Any]) -> Iterator[Row]:
    for name in LAYERS:
        if f"layer_{name}_mb" in of:
            yield f"`{name}`", *(f"{of[f'layer_{name}_{kind}']:.1f}" for kind in ("mb", "zip_mb"))


def _told(of: Mapping[str, Any], name: str) -> Row:
    low, high = of["spread"].get(name, ("", ""))
    return f"{of[name]:g}", f"{low:g} to {high:g}" if low else ""


def _kept(of: Mapping[str, Any], name: str) -> str:
    return "ok" if of[name] <= AT_MOST[name] else "**over**"


def _table(names: Row, rows: Iterable[Row]) -> Iterator[str]:
    told = list(rows)
    if told:
        yield "\n".join(f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *told))


if __name__ == "__main__":
    write(json.loads(FIGURES.read_text("utf-8")))
