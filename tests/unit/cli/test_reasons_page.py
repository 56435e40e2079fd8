"""docs/kernel/reasons.md shows what `piecework exec get` prints; `WRITE_PAGES=1 pytest` of this file writes it anew."""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

from kernel.http.api import create_app
from kernel.http.doors import Door
from piecework_cli.main import main
from tests.support.kernel.desk import served
from tests.support.kernel.kinds import KINDS, Kind, a_stage
from tests.support.kernel.stage import KernelStage

PAGE = Path(__file__).parents[3] / "docs" / "kernel" / "reasons.md"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MARK = "<!-- `WRITE_PAGES=1 pytest tests/unit/cli/test_reasons_page.py` writes what follows -->\n"


def test_the_page_of_reasons_shows_what_the_command_prints_of_every_kind():
    head, mark, _ = PAGE.read_text("utf-8").partition(MARK)
    waiting, ended = ([kind for kind in KINDS if bool(KINDS[kind].waiting_for) is waits] for waits in (True, False))
    made = [f"## {_title(name)}\n{_shown(KINDS[name])}" for name in (*waiting, *ended)]
    page = "\n".join([f"{head}{mark}", *made])
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(page, "utf-8")

    assert mark
    assert PAGE.read_text("utf-8") == page


def _title(name: str) -> str:
    return name[0].upper() + name[1:]


def _shown(kind: Kind) -> str:
    """What `piecework exec get` prints of an execution that has come to stand so."""
    stage = a_stage()
    execution, printed = kind.happen(stage), io.StringIO()
    with _served(stage) as url, contextlib.redirect_stdout(printed):
        assert main(["exec", "--kernel", url, "get", execution]) == 0
    return f"```json\n{UUID.sub('…', printed.getvalue())}```\n"


@contextlib.contextmanager
def _served(stage: KernelStage) -> Iterator[str]:
    """The door of a kernel, over HTTP."""
    parts = (stage.kernel, stage.store.runners, stage.store.counters, stage.dispatcher)
    with served(create_app(Door(*parts, lambda: stage.door.connected, ready=lambda: None))) as url:
        yield url
