"""`make bench` measures what it says: unchanged baselines, the kernel's own requests, fresh pieces, counted calls."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from bench import contenders, scratch
from bench.figures import medians, ratios, spreads
from bench.machine import head, machine
from bench.parts import PARTS
from bench.report import AT_MOST, PAIRS, RATIOS, table
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


@pytest.mark.parametrize(("name", "path"), [("execute", contenders.EXECUTE), ("verify", contenders.VERIFY)])
def test_the_requests_are_a_kernels_own(name, path):
    body = json.loads(contenders.event(path)["body"])

    assert body["task_id" if name == "execute" else "candidate"]
    if SHARED.is_dir():
        assert body == json.loads((SHARED / "examples" / f"{name}-kernel.json").read_bytes())


def test_each_call_is_a_piece_of_its_own():
    example = contenders.event(contenders.EXECUTE)
    bodies = [json.loads(contenders.fresh(example)["body"]) for _ in range(3)]

    assert len({body["execution_id"] for body in bodies}) == 3
    assert all(body["execution_id"] == body["attempt_id"] for body in bodies)
    assert all(body["task_id"] == body["task_contract"]["task_id"] for body in bodies)


def test_a_ratio_is_the_median_of_the_rounds_ratios_and_says_how_far_they_lie_apart():
    samples = {"cold_execute_ms": [100.0, 300.0, 300.0], "cold_boto3_ms": [100.0, 100.0, 400.0]}

    made = ratios(samples, PAIRS)

    assert medians(made) == {"execute_cold_vs_boto3": 1.0}  # that of the medians would be 3
    assert spreads(made) == {"execute_cold_vs_boto3": [0.8, 2.6]}


def test_a_figure_over_its_goal_is_named():
    figures = {"execute_cold_vs_boto3": 0.6, "execute_fresh_dynamodb_calls": 2, "gateway_few_per_second": 100.0}

    lines = table(figures, {"execute_cold_vs_boto3": [0.5, 0.7]}).splitlines()

    assert [line.rsplit(None, 1)[1] for line in lines] == ["OVER", "ok", "100.0"]
    assert "0.5 to 0.7" in lines[0]


def test_a_run_says_what_it_ran_on():
    told = head({**machine(), "load_after": 7.25})

    assert f"Python {platform.python_version()} on" in told
    assert f"botocore {metadata.version('botocore')}" in told
    assert re.search(r"^.+, \d+ cores, [\d.]+ GB; .+\n.+\nload before [\d.]+, after 7.25$", told)


COUNTED = """
import json, pathlib, sys
from bench.runtime import calls
from bench.worker import calls as paid
pathlib.Path(sys.argv[1]).write_text(json.dumps({**calls.measure(), **paid.measure(1)}))
"""


@pytest.fixture(scope="module")
def counted(embedded_aws, tmp_path_factory) -> dict[str, float]:
    """Figures of the parts that count requests, from one process that runs the checkout's own code."""
    out = tmp_path_factory.mktemp("bench") / "figures.json"
    variables = {**contenders.settings(ROOT), "PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": embedded_aws.endpoint}
    command = (sys.executable, "-c", COUNTED, str(out))
    subprocess.run(command, cwd=ROOT, env=variables, check=True, timeout=240, stdout=subprocess.DEVNULL)
    return json.loads(out.read_bytes())


def calls(figures: dict[str, float], door: str) -> dict[str, float]:
    of_worker = ("paid_", "unpaid_")
    counts = {name: value for name, value in figures.items() if name.endswith("_calls")}
    return {name: value for name, value in counts.items() if name.startswith(of_worker) is (door == "worker")}


def test_a_piece_costs_two_writes_a_replay_one_request_and_a_verdict_nothing(counted):
    assert calls(counted, "runtime") == {
        "execute_fresh_dynamodb_calls": 2,
        "execute_fresh_s3_calls": counted["execute_fresh_artifacts"],
        "execute_replay_dynamodb_calls": 1,
        "execute_replay_s3_calls": 0,
        "verify_aws_calls": 0,
    }


def test_a_piece_of_the_example_is_a_write_unit_at_its_claim_and_at_its_record(counted):
    assert counted["execute_item_bytes"] <= 1_024


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
    out = tmp_path / "bench.json"
    short = ("--rounds", "2", "--calls", "1", "--seconds", "0.2", "--listed", "200", "--starts", "2", "--out", str(out))
    subprocess.run((sys.executable, "-m", "bench", *PARTS, *short), cwd=ROOT, check=True, timeout=900)
    figures = json.loads(out.read_bytes())

    assert figures.keys() >= RATIOS.keys() | AT_MOST.keys() | {"gateway_requests_per_second", "starts_kernel_p99_ms"}
    assert {"cold_execute_ms", "execute_cold_vs_boto3", "paid_worker_ms", "gateway_own_ms"} <= figures["spread"].keys()
    others = figures.keys() - {"machine", "spread"}
    assert all(isinstance(figures[name], int | float) for name in others)


def test_contenders_have_every_package_that_the_layers_ask_for():
    asked = [
        name for found in (ROOT / "layers").glob("*/requirements.txt") for name in locked_packages(found.read_text())
    ]

    assert set(asked) <= scratch.closure(scratch.libraries()).keys()


def test_an_extra_brings_its_packages_only_where_it_is_asked_for():
    assert "pycryptodome" in scratch.closure(["eth-hash[pycryptodome]"])
    assert "pycryptodome" not in scratch.closure(["eth-hash"])
    assert "cryptography" in scratch.closure(["boto3", "pyjwt", "pyjwt[crypto]"])
