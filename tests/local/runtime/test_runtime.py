"""The bundle's own runtime door on the local machine."""

import json
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from local.aws import stop
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import ROOT
from local.matching import differences
from tests.support.machine import children, free_base, wait_until
from tests.support.runtime.requests import a_nonce_request, an_execute_request

EXECUTE = "runtime.execute.app.handler"


def test_a_task_runs_once_across_two_gateways(two_gateways):
    left, right = two_gateways
    body = a_nonce_request(2)

    with ThreadPoolExecutor(4) as threads:
        urls = [left.url, right.url] * 2
        answers = list(threads.map(lambda url: httpx.post(f"{url}/execute", json=body, timeout=60), urls))

    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.content for answer in answers}) == 1
    assert left.runs(body["execution_id"]) == right.runs(body["execution_id"]) == 1


@pytest.mark.slow
def test_a_killed_run_is_taken_over_by_another_gateway(gateway, two_gateways):
    runs = str(gateway.folder / "killed.runs")
    first = gateway(fresh=True, TEST_RUNS=runs)
    body = a_nonce_request(3)

    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(httpx.post, f"{first.url}/execute", json=body, timeout=60)
        wait_until(lambda: first.runs(body["execution_id"]) == 1)
        first.process.kill()
        assert isinstance(lost.exception(), httpx.TransportError)
    second = gateway(TEST_RUNS=runs)
    answer = second.http.post("/execute", json=body)

    assert answer.status_code == 200
    assert second.runs(body["execution_id"]) == 2
    assert second.http.post("/execute", json=body).content == answer.content
    first.close()


def test_credentials_reach_the_authorizer_alone(gateway):
    runtime = gateway(PIECEWORK_RUNTIME_TOKENS="kernel=s3cret/+")

    assert runtime.http.get("/health").status_code == 401
    assert runtime.http.get("/health", auth=("kernel", "wrong")).status_code == 401
    assert runtime.http.get("/health", auth=("kernel", "s3cret/+")).status_code == 200
    for _, line in children(runtime.process.pid):
        assert "s3cret" not in line
    for handler, seen in ((EXECUTE, False), ("runtime.authorizer.app.handler", True)):
        for pid in runtime.pids(handler):
            assert (b"s3cret" in Path(f"/proc/{pid}/environ").read_bytes()) is seen


def test_a_hundred_wrong_passwords_are_refused_and_no_error_of_the_authorizer(gateway):
    runtime = gateway(PIECEWORK_RUNTIME_TOKENS="kernel=s3cret/+", fresh=True)

    refused = [runtime.http.get("/health", auth=("kernel", f"wrong-{number}")) for number in range(100)]

    assert {answer.status_code for answer in refused} == {401}
    assert {answer.json()["code"] for answer in refused} == {"unauthorized"}
    assert all(answer.headers["www-authenticate"].startswith("Basic realm=") for answer in refused)
    assert all(answer.headers["access-control-allow-origin"] == "*" for answer in refused)
    assert "Unauthorized" not in runtime.logged()  # what an exception that Lambda counts would leave
    runtime.close()


def test_an_open_door_is_announced(gateway):
    assert "EVERYBODY" in gateway().logged()
    assert "EVERYBODY" not in gateway(PIECEWORK_RUNTIME_TOKENS="kernel=s3cret/+").logged()


def test_evidence_is_served_without_a_credential(gateway):
    runtime = gateway(PIECEWORK_RUNTIME_TOKENS="kernel=s3cret/+")

    made = runtime.http.post("/execute", json=an_execute_request(), auth=("kernel", "s3cret/+")).json()

    [reference] = made["evidence_refs"]
    served = httpx.get(reference["uri"])
    assert reference["uri"].startswith(runtime.url)
    assert served.status_code == 200
    assert len(served.content) == reference["size_bytes"]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_every_fixture_replays(embedded_aws):
    done = run("local.replay", **embedded_aws.variables)

    assert done.returncode == 0, done.stdout
    names = {path.name for path in (ROOT / "events").glob("*/*/*.expected.json")}
    assert done.stdout.count("ok  ") == len(list((ROOT / "events").glob("*/*/*.expected.json")))
    assert names


def test_a_different_answer_fails_the_replay(embedded_aws, tmp_path):
    folder = tmp_path / "runtime" / "capabilities"
    folder.mkdir(parents=True)
    event = json.loads((ROOT / "events" / "runtime" / "capabilities" / "health.json").read_text())
    (folder / "health.json").write_text(json.dumps(event))
    (folder / "health.expected.json").write_text('{"statusCode": 200, "headers": {}, "body": {"status": "bad"}}')

    done = run("local.replay", "--events", str(tmp_path), **embedded_aws.variables)

    assert done.returncode == 1
    assert "body.status: expected 'bad', got 'ok'" in done.stdout


@pytest.mark.parametrize(
    ("expected", "actual", "count"),
    [
        ({"a": {"$any": "integer"}}, {"a": 5}, 0),
        ({"a": {"$any": "integer"}}, {"a": True}, 1),
        ({"a": {"$any": "integer"}}, {"a": 5.0}, 1),
        ({"a": {"$pattern": "^x"}}, {"a": "xy"}, 0),
        ({"a": {"$pattern": "^x"}}, {"a": "yx"}, 1),
        ({"a": [1, 2]}, {"a": [1, 3]}, 1),
        ({"a": [1]}, {"a": [1, 2]}, 1),
        ({"a": 1.0}, {"a": 1}, 1),
        ({"a": 1}, {"b": 1}, 2),
        ({}, {}, 0),
    ],
)
def test_a_difference_is_one_line(expected, actual, count):
    assert len(list(differences(expected, actual))) == count


def started(tmp_path: Path, **variables: str) -> tuple[subprocess.Popen[bytes], str, Path]:
    base = free_base()
    log = tmp_path / f"{uuid.uuid4().hex}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            dying_with_parent("exec", sys.executable, "-m", "local.run"),
            cwd=ROOT,
            env={"PIECEWORK_PORT_BASE": str(base), **variables},
            stdout=out,
            stderr=out,
        )
    try:
        wait_until(lambda: process.poll() is not None or "Try next" in log.read_text())
        assert process.poll() is None, log.read_text()
    except AssertionError:
        stop(process)
        raise
    return process, f"http://127.0.0.1:{base}", log


def descendants(pid: int) -> list[int]:
    found = [child for child, _ in children(pid)]
    return found + [deeper for child in found for deeper in descendants(child)]


OWN_WORKER = {"WORKER_AGENT_ID": "agent_mine", "PUBLIC_BASE_URL": "https://w.example/hire", "DEFAULT_ATTEMPTS": "5"}


@pytest.mark.parametrize(
    ("ending", "given", "worker"),
    [
        (signal.SIGINT, {}, "agent_work01"),
        (signal.SIGKILL, OWN_WORKER, "agent_mine"),
        pytest.param(signal.SIGTERM, {}, "agent_work01", marks=pytest.mark.slow),
    ],
)
def test_run_starts_everything_with_the_worker_as_it_was_set_and_leaves_nothing(tmp_path, ending, given, worker):
    process, url, log = started(tmp_path, **given)
    pids = descendants(process.pid)
    assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    assert all(line in log.read_text() for line in (f"curl {url}/execute", "make demo-hire", "bin/piecework exec ls"))
    manifest = httpx.get(f"{beside(url, 1)}/manifest").json()
    assert manifest["agent_id"] == worker
    if given:
        assert manifest["endpoint"]["url"] == "https://w.example/hire"
        assert manifest["limits"]["default_attempts"] == 5
    assert httpx.get(f"{beside(url, 4)}/supported").status_code == 200

    process.send_signal(ending)

    assert process.wait(15) == (-signal.SIGKILL if ending == signal.SIGKILL else 0)
    assert len(pids) >= 8
    wait_until(lambda: not any(running(pid) for pid in pids), 10)


def beside(url: str, distance: int) -> str:
    """The address so many ports further: the worker door is one, the stub facilitator four."""
    host, _, port = url.rpartition(":")
    return f"{host}:{int(port) + distance}"


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_run_says_so_when_a_port_is_taken(gateway):
    port = gateway().url.rpartition(":")[2]

    done = run("local.run", PIECEWORK_PORT_BASE=port)

    assert done.returncode == 1
    assert "PIECEWORK_PORT_BASE" in done.stderr


def test_a_broken_module_beside_the_executors_stops_nobody_else(gateway, tmp_path):
    (tmp_path / "bent.py").write_text("def (")
    runtime = gateway(fresh=True, PIECEWORK_EXECUTORS_PATH=str(tmp_path))

    served = runtime.http.post("/execute", json=an_execute_request())
    unknown = runtime.http.post("/execute", json=an_execute_request("of-the-bent-one"))

    assert runtime.http.get("/health").json() == {"status": "ok", "broken_executors": ["bent"]}
    assert runtime.http.get("/capabilities").status_code == served.status_code == 200
    assert (unknown.status_code, unknown.json()["code"]) == (503, "unavailable")
    assert f"{tmp_path / 'bent.py'}, line 1: SyntaxError" in runtime.logged()
    runtime.close()
