"""The deployed template, as written and resolved with given parameters."""

import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from local.template import Template, read

ROOT = Path(__file__).resolve().parents[2]
Load = Callable[..., Template]


@cache
def _raw() -> dict[str, Any]:
    return dict(read(ROOT / "template.yaml"))


EVERY_DOOR = {"DeployWorkerDoor": "true", "DeployKernelDoor": "true", "DeployConsole": "true"}
SAM = ROOT / ".venv-sam" / "bin" / "python"


def sam_transform(*parameter_sets: dict[str, str]) -> list[dict[str, Any]]:
    """What CloudFormation makes of the built template with each of these sets of parameters; no network is used."""
    script = ROOT / "tests" / "support" / "sam_transform.py"
    done = subprocess.run(
        [SAM, script],
        input=json.dumps({"template": _raw(), "parameters": parameter_sets}),
        env={"PATH": os.environ["PATH"], "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    made: list[dict[str, Any]] = json.loads(done.stdout)
    return made


@pytest.fixture(scope="session")
def transformed() -> dict[str, Any]:
    """The template with every door, after the SAM transform; made once."""
    [made] = sam_transform(EVERY_DOOR)
    return made


@pytest.fixture
def deployed(transformed: dict[str, Any]) -> Callable[..., Template]:
    """The transformed template with parameters filled in: what a deployment makes."""

    def load(**parameters: str) -> Template:
        return Template(transformed, ROOT, EVERY_DOOR | parameters)

    return load


@pytest.fixture
def build_command() -> Callable[[str], str]:
    """What `sam build` runs for a function."""

    def command(function: str) -> str:
        make = ["make", "--silent", "--dry-run", "--directory", str(ROOT / "functions"), f"build-{function}"]
        return subprocess.run(make, capture_output=True, text=True, check=True).stdout

    return command


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def raw_template() -> dict[str, Any]:
    return _raw()


@pytest.fixture
def conditional(raw_template: dict[str, Any]) -> Callable[[str], set[str]]:
    """Names the resources that are deployed under a condition alone."""

    def named(condition: str) -> set[str]:
        return {name for name, body in raw_template["Resources"].items() if body.get("Condition") == condition}

    return named


@pytest.fixture
def names_in(raw_template: dict[str, Any]) -> Callable[[Template], set[str]]:
    """Names all resources that a template deploys."""
    kinds = {body["Type"] for body in raw_template["Resources"].values()}

    def named(template: Template) -> set[str]:
        return {name for kind in kinds for name in template.of_type(kind)}

    return named


@pytest.fixture
def load_template() -> Load:
    def load(**parameters: str) -> Template:
        return Template(_raw(), ROOT, parameters)

    return load


@pytest.fixture
def template(load_template: Load) -> Template:
    return load_template()
