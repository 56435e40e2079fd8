"""`piecework.testing`: what a test of an executor sees is what production does."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from piecework.errors import NoValidOutput, Refused, Retryable, SettingsError
from piecework.extend.executors import Outcome, executor
from piecework.extend.runs import Artifact
from piecework.testing import KeptSteps, run_executor

ROOT = Path(__file__).parents[3]


@executor("tested_all", task_types=("testing_all",), profiles={"default": {"marks": 1}, "loud": {"marks": 3}})
def tells_all(task, run):
    run.progress(50, "half")
    run.item({"part": 1})
    run.delta("he")
    run.delta("llo")
    run.evidence("seen")
    run.artifact("a.txt", b"bytes", "text/plain")
    run.note(input_tokens=3)
    return Outcome({"answer": (task.prompt or "").upper() + "!" * task.settings["marks"], "list": (1, 2)})


def test_all_that_a_run_made_is_there_as_readers_see_it():
    ran = run_executor(tells_all, "hi", profile="loud")

    assert ran.output == {"answer": "HI!!!", "list": [1, 2]}
    assert (ran.progress, ran.items, ran.text) == ([(50, "half")], [{"part": 1}], "hello")
    assert [one.content for one in ran.evidence] == ["seen"]
    assert ran.artifacts == [Artifact("a.txt", b"bytes", "text/plain")]
    assert ran.facts == {"input_tokens": 3} and not ran.is_partial


def test_a_run_that_takes_over_gets_the_recorded_steps():
    steps, calls = KeptSteps(), []

    @executor("tested_resumed")
    def resumed(task, run):
        found = run.step("think", lambda: calls.append(1) or len(calls))
        if not task.inputs.get("again"):
            raise Retryable("gone")
        return Outcome({"found": found})

    with pytest.raises(Retryable):
        run_executor(resumed, steps=steps)
    ran = run_executor(resumed, inputs={"again": True}, steps=steps)

    assert ran.output == {"found": 1} and calls == [1]


@pytest.mark.parametrize(
    ("output", "schema", "reason"),
    [
        ({"a": "x"}, {"type": "object", "required": ["b"]}, "b"),
        (None, {}, "null"),
        ({"a": float("nan")}, {}, "not JSON"),
        ({"a": 2**70}, {}, "number"),
        ({"a": "x" * 70_000}, {}, "over 65536 bytes"),
    ],
)
def test_an_output_that_a_door_would_refuse_fails_the_test(output, schema, reason):
    @executor("tested_output")
    def makes(task, run):
        return Outcome(output)

    with pytest.raises(NoValidOutput, match=reason):
        run_executor(makes, output_schema=schema)


def test_limits_are_those_of_production():
    @executor("tested_limits")
    def oversteps(task, run):
        run.artifact("n" * 10_000, b"")
        return Outcome({})

    with pytest.raises(Refused):
        run_executor(oversteps)


def test_an_async_executor_runs_and_its_time_ends():
    @executor("tested_async")
    async def waits(task, run):
        import asyncio

        await asyncio.sleep(run.remaining_ms())
        return Outcome({})

    with pytest.raises(Retryable, match="did not finish"):
        run_executor(waits, remaining_ms=30)


def test_tools_are_given_by_their_ids():
    @executor("tested_tools", needs_tools=True)
    def pays(task, run):
        return Outcome({"paid": run.tool("pay", {"amount": 5})})

    assert run_executor(pays, tools={"pay": lambda arguments: arguments["amount"]}).output == {"paid": 5}
    with pytest.raises(Refused):
        run_executor(pays)
    with pytest.raises(Refused):
        run_executor(pays, tools={"other": lambda arguments: 0})


def test_a_function_that_is_no_executor_is_refused_with_what_to_do():
    with pytest.raises(SettingsError, match="@executor"):
        run_executor(lambda task, run: Outcome({}))


def test_a_bug_passes_as_it_is():
    @executor("tested_bug")
    def breaks(task, run):
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        run_executor(breaks)


def test_the_package_installs_by_itself_and_runs_an_executor(tmp_path):
    """As a user does who tests executors elsewhere; the build leaves nothing in the tree."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "layers/piecework", source, ignore=shutil.ignore_patterns("__pycache__"))
    uv = ROOT / ".venv-uv/bin/uv"
    install = [str(uv), "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    subprocess.run(
        [*install, "--target", str(tmp_path / "site"), str(source)], check=True, capture_output=True, text=True
    )

    code = (
        "from piecework.executors import Outcome, executor\nfrom piecework.testing import run_executor\n"
        "import piecework\n@executor('one')\ndef one(task, run):\n    return Outcome({'a': task.prompt})\n"
        "print(piecework.__file__, run_executor(one, 'hi').output)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "site") in done.stdout and "{'a': 'hi'}" in done.stdout
