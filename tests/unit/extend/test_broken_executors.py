"""A module of executors that cannot be imported is that executor's trouble: the others are served."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOOD = """
from piecework.extend.executors import Outcome, executor

@executor("steady_one", task_types=("steady",))
def steady(task, run):
    return Outcome(1)
"""
BROKEN = {  # module: text, the line that its author is shown, the reason
    "syntax": (
        'from piecework.executors import executor\n\n@executor("bent")\ndef bent(task, run)\n',
        4,
        "SyntaxError",
    ),
    "missing": (
        "import json\nimport no_such_package_here\n",
        2,
        "ModuleNotFoundError: No module named 'no_such_package",
    ),
    "raising": ("x = {}\n\n\nx['key']\n", 4, "KeyError: 'key'"),
    "leaving": ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    "late": (GOOD.replace("steady_one", "late_one").replace("steady", "late") + "\n1 / 0\n", 8, "ZeroDivisionError"),
    "twin": (GOOD, 4, "SettingsError: two executors are named steady_one"),
    "binary": ("\0", 1, ""),
}
SHOW = """
import json, sys
from piecework.extend import manifest
found = manifest.discover(sys.argv[1])
print(json.dumps({"names": [entry.name for entry in found.executors], "broken": [tuple(one) for one in found.broken]}))
"""


def discovered(folder: Path) -> dict:
    import json

    path = os.pathsep.join((str(ROOT / "layers" / "piecework"), str(ROOT / "layers")))
    shown = subprocess.run(
        [sys.executable, "-c", SHOW, str(folder)], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return json.loads(shown.stdout)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_module_is_listed_with_its_line_and_reason_and_the_others_are_served(tmp_path, kind):
    text, line, reason = BROKEN[kind]
    (tmp_path / "a_good.py").write_text(GOOD)
    (tmp_path / f"b_{kind}.py").write_text(text)

    found = discovered(tmp_path)

    assert {"echo", "steady_one"} <= set(found["names"]) and "late_one" not in found["names"]
    [(module, names, place, why)] = found["broken"]
    assert module == f"executors.b_{kind}"
    assert names == {"syntax": ["bent"], "late": ["late_one"], "twin": ["steady_one"]}.get(kind, [f"b_{kind}"])
    assert place.endswith(f"b_{kind}.py, line {line}") and reason in why and "\n" not in why


def bundle(default=""):
    from piecework.extend.broken import Broken
    from piecework.extend.manifest import Bundle, Entry, Manifest

    entries = (Entry("steady_one", "m", ("steady",), ("default",)),)
    return Bundle(Manifest(entries, broken=(Broken("executors.bad", ("bent",), "bad.py, line 4", "secret"),)), default)


def test_a_type_that_a_broken_module_may_serve_is_neither_refused_for_good_nor_given_to_the_default():
    from piecework.errors import Unavailable

    for default in ("", "steady_one", "bent"):
        with pytest.raises(Unavailable) as refused:
            bundle(default).serving("other")
        assert "bad" in refused.value.message and "secret" not in refused.value.message


def test_a_broken_executor_asked_for_by_name_is_unavailable_and_an_unknown_one_unprocessable():
    from piecework.errors import Unavailable, Unprocessable

    with pytest.raises(Unavailable):
        bundle().named("bent")
    with pytest.raises(Unprocessable):
        bundle().named("nobody")


def test_a_contract_that_names_a_broken_executor_is_asked_to_come_again():
    from piecework.errors import Unavailable
    from piecework.worker.contract.choosing import Offer

    with pytest.raises(Unavailable):
        Offer.of(bundle()).name_for({"task": {"requirements": ["bent"]}})
    assert Offer.of(bundle()).name_for({"task": {"requirements": ["steady_one"]}}) == "steady_one"


def test_a_module_that_breaks_after_the_build_is_unavailable_each_time(tmp_path, monkeypatch, caplog):
    from piecework.errors import Unavailable
    from piecework.extend.manifest import Bundle, Entry, Manifest

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gone_bad.py").write_text("\nraise RuntimeError('the key is not set')\n")
    made = Bundle(Manifest((Entry("bent", "gone_bad", ("swarm",), ("default",)),)))

    for _ in range(2):
        with pytest.raises(Unavailable):
            made.serving("swarm")
    assert f"{tmp_path / 'gone_bad.py'}, line 2: RuntimeError: the key is not set" in caplog.text


@pytest.mark.parametrize("arguments", [["--check"], ["OUT"]])
def test_check_and_build_fail_with_one_line_for_each_broken_module(tmp_path, arguments):
    package = tmp_path / "executors"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "bad.py").write_text("def (")
    out = [str(tmp_path / "manifest.json") if argument == "OUT" else argument for argument in arguments]

    ended = subprocess.run(
        [sys.executable, "-m", "piecework.extend.manifest", *out],
        env={"PYTHONPATH": f"{ROOT / 'layers' / 'piecework'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr == f"{package / 'bad.py'}, line 1: SyntaxError: invalid syntax\n"
    assert not (tmp_path / "manifest.json").exists()
