"""`make bench` measures what it says: unchanged baselines, the kernel's own requests, fresh pieces, counted calls."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import contenders, scratch
from bench.report import AT_MOST, RATIOS, table, with_ratios
from local.build.assemble import locked_packages

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
BASELINES = {
    "idiomatic_powertools.py": "9f66fd0c86192672ba34ebf7bb059d773397a3b1279c496fd80f1f598cb886b6",
    "fastapi_mangum.py": "df5cdc120d87e9141350180aab3a3f8ede64a41d5900731f365b870125c7ab26",
}


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_what_was_agreed(name):
    copy = (ROOT / "bench/baselines" / name).read_bytes()

    assert hashlib.sha256(copy).hexdigest() == BASELINES[name]
    if SHARED.is_dir():
        assert copy == (SHARED / "bench" / name).read_bytes()


@pytest.mark.parametrize("request_name", ["execute", "verify"])
def test_the_requests_are_a_kernels_own(request_name):
    body = json.loads(contenders.event(request_name)["body"])

    assert body["task_id" if request_name == "execute" else "candidate"]
    if SHARED.is_dir():
        assert body == json.loads((SHARED / "examples" / f"{request_name}-kernel.json").read_bytes())


def test_each_call_is_a_piece_of_its_own():
    example = contenders.event("execute")
    bodies = [json.loads(contenders.fresh(example)["body"]) for _ in range(3)]

    assert len({body["execution_id"] for body in bodies}) == 3
    assert all(body["execution_id"] == body["attempt_id"] for body in bodies)
    assert all(body["task_id"] == body["task_contract"]["task_id"] for body in bodies)


def test_ratios_are_ours_over_theirs_and_say_when_they_are_over():
    figures = with_ratios({"cold_execute_ms": 300.0, "cold_boto3_ms": 200.0, "execute_fresh_dynamodb_calls": 3})

    assert figures["execute_cold_vs_boto3"] == 1.5
    lines = table(figures).splitlines()
    assert [line.rsplit(None, 1)[1] for line in lines if "at most" in line] == ["OVER", "OVER"]


def run(tmp_path: Path, *parts: str) -> dict[str, float]:
    out = tmp_path / "bench.json"
    short = ("--rounds", "1", "--calls", "1", "--seconds", "0.2", "--out", str(out))
    subprocess.run((sys.executable, "-m", "bench", *parts, *short), cwd=ROOT, check=True, timeout=240)
    figures = json.loads(out.read_bytes())
    assert all(isinstance(value, int | float) for value in figures.values())
    return figures


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> dict[str, float]:
    """Figures of the parts that count requests."""
    return run(tmp_path_factory.mktemp("bench"), "warm", "calls")


def calls(figures: dict[str, float], door: str) -> dict[str, float]:
    of_worker = ("paid_", "unpaid_")
    counts = {name: value for name, value in figures.items() if name.endswith("_calls")}
    return {name: value for name, value in counts.items() if name.startswith(of_worker) is (door == "worker")}


def test_a_piece_costs_two_writes_a_replay_one_request_and_a_verdict_nothing(counted):
    assert {name for name in RATIOS if "warm" in name} <= counted.keys()
    assert calls(counted, "runtime") == {
        "execute_fresh_dynamodb_calls": 2,
        "execute_fresh_s3_calls": counted["execute_fresh_artifacts"],
        "execute_replay_dynamodb_calls": 1,
        "execute_replay_s3_calls": 0,
        "verify_aws_calls": 0,
    }


def test_a_paid_short_task_costs_five_dynamodb_requests_two_facilitator_calls_and_a_put_per_file(counted):
    assert calls(counted, "worker") == {
        "unpaid_ask_dynamodb_calls": 2,
        "paid_task_dynamodb_calls": 5,
        "paid_task_s3_put_calls": counted["paid_task_files"],
        "paid_task_s3_other_calls": 0,
        "paid_task_sqs_calls": 0,
        "paid_task_facilitator_calls": 2,
        "paid_repeat_dynamodb_calls": 2,
        "paid_poll_dynamodb_calls": 2,
    }


@pytest.mark.slow
def test_a_short_run_measures_everything(tmp_path):
    figures = run(tmp_path)

    assert figures.keys() >= RATIOS.keys() | AT_MOST.keys() | {"gateway_requests_per_second"}


def test_contenders_have_every_package_that_the_layers_ask_for():
    asked = [
        name for found in (ROOT / "layers").glob("*/requirements.txt") for name in locked_packages(found.read_text())
    ]

    assert set(asked) <= scratch.closure(scratch.libraries()).keys()
