"""`make conformance`: the cases of each door pass over HTTP, and notice what is wrong."""

import re
import subprocess
import sys

import pytest

from local.gateway.lambdas.variables import ROOT
from tests.support.worker.machine import running_worker

KERNEL = {"PIECEWORK_PARAM_DeployKernelDoor": "true", "PIECEWORK_POLICY_DEFAULT": "permissive"}
TOKEN = "ops=s3cret/+"


def ask_the_cases(
    url: str, token: str, *options: str, folder: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """What `make conformance` runs, or one folder of it; the door is found out."""
    cases = f"tests/conformance/{folder}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cases, *options]
    variables = {"CONFORMANCE_URL": url, "CONFORMANCE_TOKEN": token, **more}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("cases", "passed"),
    [
        pytest.param((), r"\d{3} passed, \d+ deselected in ", marks=pytest.mark.slow),
        (("-k", "test_07_reason_codes or test_08_topics_and_events or test_crash"), r"\d\d passed, \d+ deselected in "),
    ],
    ids=["all", "some"],
)
def test_the_conformance_cases_pass_over_http_with_a_token(gateway, cases, passed):
    runtime = gateway(PIECEWORK_RUNTIME_TOKENS=TOKEN)

    done = ask_the_cases(runtime.url, TOKEN, *cases)

    assert done.returncode == 0, done.stdout
    assert re.search(f"^{passed}", done.stdout, re.M), done.stdout
    assert f"runtime door at {runtime.url}" in done.stdout
    assert "test_crash_recovery" in done.stdout.partition("need more than a URL:")[2]


def test_the_cases_of_the_worker_pass_over_http_too(gateway):
    with running_worker(gateway) as worker:
        paid = {"CONFORMANCE_FACILITATOR": worker.facilitator.url}

        done = ask_the_cases(
            worker.gateway.url, "", "-k", "unpaid_gets_402 or test_replay_same_contract", folder="worker", **paid
        )

    assert done.returncode == 0, done.stdout
    assert "worker door at" in done.stdout and "2 passed" in done.stdout


def test_the_cases_of_the_kernel_pass_over_http_too(gateway):
    kernel = gateway(api="KernelApi", PIECEWORK_KERNEL_TOKENS=TOKEN, **KERNEL)

    done = ask_the_cases(kernel.url, TOKEN, "-k", "test_01_http or test_local_happy_path or test_deny", folder="kernel")

    assert done.returncode == 0, done.stdout
    assert "kernel door at" in done.stdout and "8 passed" in done.stdout
    assert re.search(r"run with POLICY=yes.*: test_deny, test_deny_approval$", done.stdout, re.M)


def test_the_conformance_cases_notice_what_is_wrong(gateway):
    runtime = gateway(PIECEWORK_RUNTIME_TOKENS=TOKEN)

    done = ask_the_cases(runtime.url, "ops=wrong", "-k", "test_health_ok or test_policy_vectors", folder="runtime")

    assert done.returncode == 1
    assert "2 failed" in done.stdout


def test_a_url_where_no_door_answers_is_said():
    done = ask_the_cases("http://127.0.0.1:9", "")

    assert done.returncode != 0
    assert "nobody answers at http://127.0.0.1:9" in done.stdout + done.stderr
