"""Log lines of the functions: any field name an executor can think of, and never a long text of a caller's."""

import json

import pytest

from piecework.aws.telemetry import FIELD_CHARACTERS, LambdaTelemetry


@pytest.fixture
def telemetry(monkeypatch) -> LambdaTelemetry:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "runtime-test")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piecework")
    return LambdaTelemetry()


@pytest.mark.parametrize("name", ["name", "message", "args", "module", "exc_info", "level", "timestamp", "service"])
def test_a_field_named_like_a_part_of_the_line_is_kept_under_its_name_and_an_underscore(telemetry, capsys, name):
    telemetry.info("something_happened", **{name: "mine"})

    line = json.loads(capsys.readouterr().out)
    assert line["message"] == "something_happened"
    assert line["service"] == "runtime-test"
    assert line[f"{name}_"] == "mine"


@pytest.mark.parametrize("name", ["event", "self"])
def test_a_field_may_be_named_like_a_parameter(telemetry, capsys, name):
    telemetry.outcome("execute", {name: 1}, {})

    assert json.loads(capsys.readouterr().out)[name] == 1


def test_a_long_text_is_cut(telemetry, capsys):
    telemetry.warning("something_happened", text="x" * (FIELD_CHARACTERS + 1))

    assert json.loads(capsys.readouterr().out)["text"] == "x" * FIELD_CHARACTERS
