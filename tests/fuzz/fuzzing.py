"""Schemathesis, from an environment of its own, against a running door and an OpenAPI document."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local.gateway.lambdas.variables import ROOT
from tests.support.machine import RunningGateway

PROGRAM = ROOT / ".venv-fuzz" / "bin" / "schemathesis"
FIXED = ("--phases", "fuzzing", "--generation-deterministic")  # the same requests in every run

CHECKS = (
    "not_a_server_error",  # no 5xx at all: nothing here is slow, busy or out of reach
    "status_code_conformance",  # so no 408 and no 429 either, where the document does not have them
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    # not positive_data_acceptance: a document cannot say which policies, tasks, steps and cursors there are
)
OF_NARROWED = tuple(check for check in CHECKS if check != "negative_data_rejection")  # the door may accept more


def fuzzed(
    door: RunningGateway, document: Path, checks: Sequence[str], seconds: int, out: Path, *more: str
) -> dict[str, Any]:
    """The report of one run, which must have reached every operation and found nothing."""
    report = out / "report.json"
    command = [str(PROGRAM), "run", str(document), "--url", door.url, "--checks", ",".join(checks)]
    command += ["--report-json-path", str(report), "--no-color", "--no-shrink", *more]
    ended = subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=seconds, check=False)
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-2_000:]
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))
    wanted = sum(len(operations) for operations in json.loads(document.read_text("utf-8"))["paths"].values())
    assert found["complete"] and found["operations"]["tested"] == found["operations"]["total"] == wanted
    return found
