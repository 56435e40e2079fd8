"""The AWS calls of a whole run: where gateways record them, and the check of all of them when the run ends."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from local.gateway.lambdas.variables import ROOT
from tests.support.roles import Call, refused, template_with, used

RUN = "PIECEWORK_TEST_RUN"  # set by the process that pytest was started as, inherited by its workers
RECORDS = ROOT / "build" / "aws-calls"
REPORT = ROOT / "build" / "aws-calls.json"


def folder() -> Path:
    """Where this run's gateways record their functions' calls."""
    return RECORDS / os.environ[RUN]


def recorded() -> Counter[Call]:
    """Every call of this run so far."""
    calls: Counter[Call] = Counter()
    for path in folder().glob("*.jsonl"):
        complete = path.read_text("utf-8").rpartition("\n")[0]  # a gateway may be writing its next line
        calls.update(Call(**json.loads(line)) for line in complete.splitlines())
    return calls


def pytest_configure(config: pytest.Config) -> None:
    """Give the run a folder of its own."""
    if not _is_worker(config):
        os.environ[RUN] = str(os.getpid())
        shutil.rmtree(folder(), ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when any function made a call that its role would refuse; leave the figures in `build`."""
    if _is_worker(session.config):
        return
    calls, template = recorded(), template_with(worker=True, kernel=True, console=True)
    wrong = refused(calls, template)
    if calls:
        REPORT.write_text(json.dumps(used(calls, template), indent=1) + "\n", "utf-8")
    shutil.rmtree(folder(), ignore_errors=True)
    if wrong:
        _say(session, [f"{call.function} may not {call.action} on {call.resource}" for call in wrong])
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _say(session: pytest.Session, lines: list[str]) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for line in ("", "AWS calls that the deployed roles would refuse:", *lines):
        reporter.write_line(line, red=True)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
