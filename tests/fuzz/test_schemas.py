"""Strangers' schemas never crash the checker, and no check is made that was not counted as cheap."""

import json
import os
import subprocess
import sys

import pytest

from local.gateway.lambdas.variables import EXECUTORS, PACKAGE, ROOT
from piecework.schemas.cost import MAX_STEPS
from tests.fuzz.settled import FIXED, MANY

STEP_SECONDS = 30e-9  # what one counted step takes at most, three times what was measured


def hurt(examples: int, seconds: int) -> dict[str, int]:
    """The figures of a process that tried to hurt the checker and must have ended well."""
    paths = os.pathsep.join(map(str, (PACKAGE, EXECUTORS, ROOT)))
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.fuzz.hostile", str(examples)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-6_000:]
    figures: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return figures


def test_the_counted_bound_is_far_below_a_second():
    assert MAX_STEPS * STEP_SECONDS < 1


def test_500_hostile_schemas_do_no_harm():
    figures = hurt(FIXED, 300)

    assert figures["highest"] <= MAX_STEPS
    assert figures["refused"] > 50 and figures["checked"] > 50 and figures["too_costly"] > 0


@pytest.mark.slow
def test_very_many_hostile_schemas_do_no_harm():
    figures = hurt(MANY, 1_800)

    assert figures["highest"] <= MAX_STEPS
