"""The runtime door answers no request in a way that its published OpenAPI document does not have."""

import json
from pathlib import Path
from typing import Any

import pytest

from local.gateway.lambdas.variables import ROOT
from tests.fuzz.fuzzing import CHECKS, FIXED, OF_NARROWED, fuzzed
from tests.fuzz.narrowed import narrowed
from tests.support.machine import RunningGateway

PUBLISHED = ROOT / "docs" / "openapi" / "runtime.json"
SECRET = "secret-of-the-fuzzer-0123456789"


@pytest.fixture(scope="module")
def door(gateway) -> RunningGateway:
    """A door that asks for a credential, without the executors of tests: those break when they are told to."""
    return gateway(PIECEWORK_RUNTIME_TOKENS=f"fuzz={SECRET}", PIECEWORK_EXECUTORS_PATH="")


@pytest.fixture(params=["published", pytest.param("narrowed", marks=pytest.mark.slow)])
def document(request, tmp_path) -> Path:
    """The published document, and one that gets past the first checks."""
    if request.param == "published":
        return PUBLISHED
    path = tmp_path / "narrowed.json"
    path.write_text(json.dumps(narrowed(json.loads(PUBLISHED.read_text("utf-8")))), "utf-8")
    return path


def checked(door: RunningGateway, document: Path, out: Path, seconds: int, *more: str) -> dict[str, Any]:
    """The report of one run."""
    checks = CHECKS if document == PUBLISHED else OF_NARROWED
    return fuzzed(door, document, checks, seconds, out, "--auth", f"fuzz:{SECRET}", *more)


def test_no_request_of_250_breaks_the_door(door, document, tmp_path):
    report = checked(door, document, tmp_path, 240, *FIXED, "--max-examples", "60")

    assert report["test_cases"]["generated"] >= 250


@pytest.mark.slow
def test_no_request_of_2500_breaks_the_door(door, document, tmp_path):
    report = checked(door, document, tmp_path, 1_500, "--phases", "coverage,fuzzing", "--max-examples", "400")

    assert report["test_cases"]["generated"] >= 2_500
