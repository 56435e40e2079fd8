"""Log lines of the functions: any field name an executor can think of, and never a long text of a caller's."""

import io
import json
import logging
import os
import time
import uuid
from typing import Any

import pytest
from aws_lambda_powertools import Metrics

from piecework.aws.telemetry import FIELD_CHARACTERS, LambdaTelemetry


class Written:
    """A telemetry of its own service, and the lines it writes."""

    def __init__(self, service: str) -> None:
        self.telemetry = LambdaTelemetry()
        self._out = io.StringIO()
        for handler in logging.getLogger(service).handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(self._out)

    def line(self) -> dict[str, Any]:
        (line,) = self._out.getvalue().splitlines()
        return json.loads(line)


@pytest.fixture
def written(monkeypatch) -> Written:
    service = uuid.uuid4().hex  # loggers of one service share what they write to
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", service)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piecework")
    return Written(service)


@pytest.mark.parametrize("name", ["name", "message", "args", "module", "exc_info", "level", "timestamp", "service"])
def test_a_field_named_like_a_part_of_the_line_is_kept_under_its_name_and_an_underscore(written, name):
    written.telemetry.info("something_happened", **{name: "mine"})

    line = written.line()
    assert (line["message"], line["level"]) == ("something_happened", "INFO")
    assert "mine" not in (line["service"], line["timestamp"])
    assert line[f"{name}_"] == "mine"


@pytest.mark.parametrize("name", ["event", "self"])
def test_a_field_may_be_named_like_a_parameter(written, name):
    written.telemetry.info("something_happened", **{name: 1})

    assert written.line()[name] == 1


def test_an_outcome_line_looks_like_the_loggers_own(written, capsys):
    written.telemetry.outcome("execute", {"status": 200, "level": 7, "left_out": None}, {})
    written.telemetry.info("execute", status=200, level=7)

    line, own = json.loads(capsys.readouterr().out), written.line()
    assert line.pop("timestamp")[:13] == own.pop("timestamp")[:13]
    assert line == own


@pytest.mark.parametrize("given", [True, False])
def test_outcome_lines_obey_the_log_level_and_name_the_service(monkeypatch, capsys, given):
    service = uuid.uuid4().hex
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", service)
    LambdaTelemetry(os.environ if given else None).outcome("execute", {"status": 200}, {})
    assert json.loads(capsys.readouterr().out)["service"] == service

    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", uuid.uuid4().hex)
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "WARNING")
    LambdaTelemetry(os.environ if given else None).outcome("execute", {"status": 200}, {})
    assert capsys.readouterr().out == ""


def test_counts_of_an_outcome_look_like_powertools_own(written, monkeypatch, capsys):
    written.telemetry.outcome("verify", {}, {"VerdictsPassed": 1, "Replays": 2})
    ours = json.loads(capsys.readouterr().out.splitlines()[1])
    metrics = Metrics()
    for name, value in {"VerdictsPassed": 1, "Replays": 2}.items():
        metrics.add_metric(name=name, unit="Count", value=value)
    metrics.flush_metrics()

    own = json.loads(capsys.readouterr().out)
    assert abs(ours["_aws"].pop("Timestamp") - own["_aws"].pop("Timestamp")) < 3_600_000
    assert json.dumps(ours) == json.dumps(own)


def test_a_lazy_telemetry_logs_and_counts_all_the_same(monkeypatch, capsys):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", uuid.uuid4().hex)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piecework")
    telemetry = LambdaTelemetry(os.environ)
    telemetry.outcome("execute", {"status": 200}, {"Replays": 1})

    _, counted = map(json.loads, capsys.readouterr().out.splitlines())
    assert counted["Replays"] == [1.0]
    assert counted["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Piecework"


@pytest.mark.parametrize("given", [True, False])
def test_a_count_is_a_metric_without_dimensions_of_the_stacks_namespace(monkeypatch, capsys, given):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", uuid.uuid4().hex)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Piecework/mine")
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "ERROR")  # what rings does not hang on what is logged
    LambdaTelemetry(os.environ if given else None).count(("SettleCalls", "Settled"))

    (counted,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (counted.pop("SettleCalls"), counted.pop("Settled")) == (1, 1)
    (format_,) = counted["_aws"]["CloudWatchMetrics"]
    assert format_["Namespace"] == "Piecework/mine" and format_["Dimensions"] == [[]]
    assert format_["Metrics"] == [{"Name": name, "Unit": "Count"} for name in ("SettleCalls", "Settled")]
    assert abs(counted["_aws"]["Timestamp"] / 1000 - time.time()) < 3_600
    assert set(counted) == {"_aws"}


def test_an_outcome_takes_any_field_too(written, capsys):
    written.telemetry.outcome("execute", {"name": "mine", "event": 1, "level": "low", "absent": None}, {})

    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["message"], line["level"]) == ("execute", "INFO")
    assert (line["name_"], line["event"], line["level_"]) == ("mine", 1, "low")
    assert "absent" not in line


def test_a_long_text_is_cut(written):
    written.telemetry.warning("something_happened", text="x" * (FIELD_CHARACTERS + 1))

    assert written.line()["text"] == "x" * FIELD_CHARACTERS
