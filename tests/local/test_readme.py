"""What the README shows works as printed: its request, and its executor."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
EXECUTOR, ITS_TEST = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
OURS = ("MAKE", "PYTEST")  # variables of the `make test` that this is a part of


def test_the_commands_a_newcomer_needs_come_first():
    shown = re.findall(r"^make [a-z-]+", README, re.MULTILINE)

    assert shown[:2] == ["make run", "make test"]


def test_continuous_integration_checks_and_tests_and_the_slow_tests_run_nothing_twice():
    lines = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    commands = [
        line.removeprefix("exec ").partition(" #")[0].split() for line in lines if re.match("(exec )?make ", line)
    ]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    shown = "".join(
        subprocess.run([*command, "-n"], cwd=ROOT, env=alone, capture_output=True, text=True, check=True).stdout
        for command in commands
    )

    runs = re.findall(r"-m pytest .*--no-loadscope-reorder (.*)", shown)
    assert [command[1] for command in commands] == ["check", "test", "test-all"]
    assert [run.split() for run in runs] == [
        ["--junitxml=build/junit.xml"],
        ["-m", "slow", "--junitxml=build/junit-slow.xml"],
    ]


def run_chromium(command: list[str], **env: str) -> str:
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def test_where_chromium_is_missing_the_last_line_says_so_and_continuous_integration_installs_it_and_fails():
    find = [sys.executable, "-m", "tests.browser.chromium"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    run = (ROOT / ".ci/run").read_text("utf-8")

    assert "apt install chromium" in run_chromium(find, PATH="/nowhere")
    assert "apt install chromium" in run_chromium(find, PIECEWORK_CHROMIUM="/nowhere/chromium")
    assert run_chromium(find, PIECEWORK_CHROMIUM=sys.executable) == ""
    for target in ("test", "test-all", "test-browser"):
        recipe = makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0]
        assert recipe.endswith("@$(PY) -m tests.browser.chromium"), target
    assert "PIECEWORK_BROWSER_TESTS=required" in run and "apt-get install" in run


@pytest.mark.parametrize(("required", "ended"), [("required", "1 error"), ("", "1 skipped")])
def test_browser_tests_fail_without_chromium_only_where_they_are_required(required, ended):
    command = [*PYTEST, "tests/browser/test_journeys.py", "-k", "once"]
    env = {"PATH": "/nowhere", "PIECEWORK_BROWSER_TESTS": required}

    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    assert ended in done.stdout and (done.returncode == 0) is (required == ""), done.stdout


@pytest.fixture(scope="module")
def runtime(gateway, tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (folder / "shout.py").write_text(EXECUTOR, "utf-8")
    running = gateway(fresh=True, PIECEWORK_EXECUTORS_PATH=str(folder))
    yield running
    running.close()


@pytest.fixture(scope="module")
def request_body() -> dict:
    (shown,) = re.findall(r"/execute -H 'content-type: application/json' -d '(.*?)'\n", README, re.DOTALL)
    return json.loads(shown)


def execute(runtime, body: dict) -> httpx.Response:
    return runtime.http.post("/execute", json=body)


def test_the_request_shown_is_answered_with_evidence_replayed_and_guarded(runtime, request_body):
    first, again = execute(runtime, request_body), execute(runtime, request_body)
    changed = execute(runtime, {**request_body, "inputs": {"prompt": "changed"}})
    (ref,) = first.json()["evidence_refs"]

    assert first.status_code == 200 and first.json()["evidence_inline"]
    assert httpx.get(ref["uri"], trust_env=False).status_code == 200
    assert again.content == first.content and again.headers["x-piecework-replayed"] == "true"
    assert changed.status_code == 409


def test_the_executor_shown_serves_its_type_and_profiles(runtime, request_body):
    body = {**request_body, "execution_id": "e-2", "task_type": "shouting", "profile": "loud"}

    capabilities = runtime.http.get("/capabilities").json()
    answer = execute(runtime, body)

    assert "shouting" in capabilities["task_types"] and "loud" in capabilities["profiles"]
    assert answer.json()["candidate_output"] == {"answer": "HELLO!!!"}
    assert answer.json()["evidence_inline"] == [{"mime": "text/plain", "content": "shouted for a-1"}]


def test_the_executor_shown_refuses_for_good(runtime, request_body):
    refused = execute(runtime, {**request_body, "execution_id": "e-3", "task_type": "shouting", "inputs": {}})

    assert refused.status_code == 400 and refused.json() == {"error": "inputs.prompt is needed", "code": "refused"}


def test_the_test_of_the_executor_passes_as_printed(tmp_path):
    package = tmp_path / "executors"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shout.py").write_text(EXECUTOR, "utf-8")
    (tmp_path / "test_shout.py").write_text(ITS_TEST, "utf-8")
    command = [*PYTEST, "--rootdir", str(tmp_path), "test_shout.py"]
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'layers/piecework'}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
