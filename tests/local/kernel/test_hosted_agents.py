"""A hosted agent whose process is killed in the middle of its run, in real processes."""

import pytest

from tests.support.machine import wait_until

pytestmark = pytest.mark.slow  # a lost run is taken over when its lease has lapsed, after 15 s

SLEEPER = '''"""Thinks once, then sleeps until its gate is open."""

import time
from pathlib import Path

from piecework.extend.executors import Outcome, Run, Task, executor


@executor("sleeper", task_types=())
def sleeper(task: Task, run: Run) -> Outcome:
    folder = Path(task.inputs)
    thought = run.step("think", lambda: think(folder))
    (folder / "thought").touch()
    while not (folder / "gate").exists():
        time.sleep(0.05)
    return Outcome({"thought": thought})


def think(folder: Path) -> int:
    with (folder / "calls").open("a") as calls:
        calls.write("x")
    return (folder / "calls").stat().st_size
'''


def test_a_killed_run_is_taken_over_and_its_recorded_step_is_not_run_again(own_gateway, tmp_path):
    (tmp_path / "executors").mkdir()
    (tmp_path / "executors" / "sleeper.py").write_text(SLEEPER)
    kernel = own_gateway(
        api="KernelApi",
        fresh=True,
        PIECEWORK_EXECUTORS_PATH=str(tmp_path / "executors"),
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_KernelAgentTimeout="2s",
        PIECEWORK_SWEEP_SECONDS="1",
    )
    created = kernel.http.post("/v0/executions", json={"agent_id": "sleeper", "input": str(tmp_path)})
    path = f"/v0/executions/{created.json()['id']}"
    wait_until((tmp_path / "thought").exists)

    (tmp_path / "thought").unlink()
    assert kernel.kill("kernel.hosted.app.handler") >= 1
    wait_until((tmp_path / "thought").exists, seconds=90)
    (tmp_path / "gate").touch()

    wait_until(lambda: kernel.http.get(path).json()["status"] == "completed")
    assert kernel.http.get(path).json()["output"] == {"thought": 1}
    assert (tmp_path / "calls").read_text() == "x"
    kernel.close()
