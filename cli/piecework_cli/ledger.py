"""`piecework ledger export`: the operator's debts: platform fees, money owed back to seekers, and its refunds."""

import argparse
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from piecework.jsons import Json, canonical
from piecework.worker.chain.networks import USDC_DECIMALS
from piecework.worker.contract.contracts import time_text
from piecework.worker.record.debts import REFUND_DUE, Debt
from piecework.worker.record.executions import LedgerRow
from piecework_cli.executions import executions_of
from piecework_cli.output import CommandError, write_private
from piecework_cli.target import Target

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
COLUMNS: Final = (
    "at",
    "kind",
    "contract_id",
    "task_id",
    "generation",
    "usdc",
    "atomic",
    "network",
    "wallet",
    "transaction",
    "debt",
)


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("ledger", help="export what the worker's operator owes").add_subparsers(
        required=True, metavar="ACTION"
    )
    exporting = group.add_parser(
        "export", help="export platform_fee_due, refund_due and refunded rows, the oldest first"
    )
    exporting.add_argument(
        "--from", dest="first", metavar="YYYY-MM", help="the first month (UTC); without it the current one"
    )
    exporting.add_argument("--to", dest="last", metavar="YYYY-MM", help="the last month; without it the current one")
    exporting.add_argument("--format", choices=["csv", "jsonl"], default="csv", help="csv, or one JSON object per line")
    exporting.add_argument("file", nargs="?", type=Path, help="the file to write; without it the rows are printed")
    exporting.set_defaults(run=export)


def export(options: argparse.Namespace) -> None:
    """Print or write the rows of the requested months."""
    this_month = datetime.now(UTC).strftime("%Y-%m")
    last = options.last or this_month
    months = list(months_between(options.first or last, last))
    executions = executions_of(Target.of(options))
    rows = [entry_of(row) for month in months for row in executions.ledger(month)]
    text = as_csv(rows) if options.format == "csv" else as_lines(rows)
    if options.file is None:
        print(text, end="")
    else:
        write_private(options.file, text)


def months_between(first: str, last: str) -> Iterator[str]:
    """Every month from the first to the last.

    Raises:
        CommandError: a text is not a month, or the months are in the wrong order.
    """
    if not (MONTH.fullmatch(first) and MONTH.fullmatch(last)) or first > last:
        raise CommandError("give months as YYYY-MM; the first must not be after the last")
    start, end = (int(month[:4]) * 12 + int(month[5:]) - 1 for month in (first, last))
    return (f"{number // 12:04d}-{number % 12 + 1:02d}" for number in range(start, end + 1))


def entry_of(row: LedgerRow) -> dict[str, Json]:
    """A row with its time and its amount as people write them."""
    known = asdict(row) | {"at": time_text(row.at_ms), "usdc": f"{Decimal(row.atomic).scaleb(-USDC_DECIMALS):f}"}
    if row.kind == REFUND_DUE:
        known["debt"] = Debt(row).key.name
    return {name: known[name] for name in COLUMNS}


def as_csv(rows: Sequence[dict[str, Json]]) -> str:
    """The rows as CSV with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_lines(rows: Sequence[dict[str, Json]]) -> str:
    """The rows as JSON, one object per line."""
    return "".join(f"{canonical(row).decode()}\n" for row in rows)
