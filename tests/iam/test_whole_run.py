"""When a run of pytest ends, every call of every gateway is held against the roles."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import aws_calls

SEEN = {"function": "VerifyFunction", "resource": "arn:aws:s3:::${PIECEWORK_BUCKET}/evidence/digest/token"}


@pytest.fixture
def ended(monkeypatch, tmp_path):
    """A run that ends after its gateways recorded some lines: its exit status and what it said."""
    monkeypatch.setattr(aws_calls, "RECORDS", tmp_path)
    monkeypatch.setattr(aws_calls, "REPORT", tmp_path / "report.json")
    monkeypatch.setenv(aws_calls.RUN, "run")
    said: list[str] = []
    reporter = SimpleNamespace(write_line=lambda line, **_: said.append(line))
    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: reporter))

    def end(*calls: dict[str, str], torn: str = "") -> tuple[Any, list[str]]:
        aws_calls.folder().mkdir()
        lines = "".join(f"{json.dumps(SEEN | call)}\n" for call in calls)
        (aws_calls.folder() / "1.jsonl").write_text(lines + torn)
        session = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
        aws_calls.pytest_sessionfinish(session)
        return session.exitstatus, said

    return end


def test_a_run_without_a_refused_call_ends_well_and_leaves_its_figures(ended, tmp_path):
    status, said = ended({"action": "s3:GetObject"}, {"action": "s3:GetObject"}, torn='{"function":')

    assert (status, said) == (pytest.ExitCode.OK, [])
    assert json.loads((tmp_path / "report.json").read_text()) == {
        "VerifyFunction": {"s3:GetObject arn:aws:s3:::piecework-local/evidence/*": 2}
    }


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            {"action": "s3:PutObject"},
            "VerifyFunction may not s3:PutObject on arn:aws:s3:::piecework-local/evidence/digest/token",
        ),
        (
            {"action": "s3:GetObject", "resource": "arn:aws:s3:::elsewhere/evidence/x"},
            "VerifyFunction may not s3:GetObject on arn:aws:s3:::elsewhere/evidence/x",
        ),
    ],
)
def test_a_run_with_a_refused_call_fails_and_names_it(ended, call, line):
    status, said = ended({"action": "s3:GetObject"}, call)

    assert status == pytest.ExitCode.TESTS_FAILED
    assert said[-1] == line
