"""What is registered, and who serves what."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from piecework.errors import SettingsError, Unprocessable
from piecework.extend import manifest
from piecework.extend.executors import executor, registered
from piecework.extend.manifest import Bundle, Entry, Manifest

ROOT = Path(__file__).parents[3]
ENTRIES = (
    Entry("alpha", "m", ("swarm", "a"), ("default", "fast")),
    Entry("beta", "m", ("b", "a"), ("default", "slow")),
    Entry("echo", "m", ("swarm", "echo"), ("default",)),
)


def test_the_default_executor_keeps_its_own_types_and_comes_first():
    bundle = Bundle(Manifest(ENTRIES), "echo")

    assert bundle.task_types == ("swarm", "echo", "a", "b")
    assert bundle.profiles == ("default", "fast", "slow")


def test_the_first_by_name_serves_a_type_that_several_list():
    bundle = Bundle(Manifest(ENTRIES), "echo")

    assert bundle._by_task_type["a"].name == "alpha" and bundle._by_task_type["swarm"].name == "echo"


def test_unknown_types_are_refused_only_by_a_strict_bundle():
    with pytest.raises(Unprocessable):
        Bundle(Manifest(ENTRIES), "echo", strict_task_types=True).serving("other")


def test_a_default_that_is_not_registered_is_a_settings_error():
    with pytest.raises(SettingsError):
        Bundle(Manifest(ENTRIES), "gamma")


def test_shipped_executors_are_found_by_importing():
    names = {entry.name for entry in manifest.discover().executors}

    assert {"echo", "completion", "topic_interpretation"} <= names


def test_a_written_manifest_is_read_without_importing_any_executor(tmp_path):
    package = tmp_path / "executors"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "boom.py").write_text("raise RuntimeError('imported')")
    found = Manifest((Entry("boom", "executors.boom", ("swarm",), ("default",)),), {"vp.x": "executors.boom"})
    manifest.write(found, package / "manifest.json")
    script = (
        "import sys; from piecework.extend import manifest; m = manifest.load();"
        " print(m.executors[0].name, 'asyncio' in sys.modules)"
    )

    shown = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{ROOT / 'layers' / 'piecework'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert shown.stdout.split() == ["boom", "False"]
    assert json.loads((package / "manifest.json").read_text())["policies"] == {"vp.x": "executors.boom"}


def test_an_executor_needs_a_default_profile_and_a_name_of_its_own():
    with pytest.raises(SettingsError):
        executor("no-default", profiles={"fast": {}})
    taken = registered()
    if "echo" in taken:
        with pytest.raises(SettingsError):
            executor("echo")(lambda task, run: None)
