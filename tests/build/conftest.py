"""Builds of the layers and functions, made once for all tests of this folder."""

import os
import platform
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from local.build import trimming
from local.build.__main__ import build
from local.build.target import RUNTIME_PYTHON, BuildError, Target
from local.build.tools import find_python
from local.template import Template

ROOT = Path(__file__).resolve().parents[2]
ALL_DOORS = {
    "DeployWorkerDoor": "true",
    "DeployKernelDoor": "true",
    "DeployConsole": "true",
    "WorkerPublicUrl": "https://w.example/hire",
    "WorkerAgentId": "agent_work01",
    "WorkerWallets": "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
    "FacilitatorUrl": "https://facilitator.example",
}
LAYERS = ("piecework", "executors", "worker", "kernel", "ops")
HOST_ARCH = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]


def _python() -> str:
    """The runtime's Python where this machine has it, else the one that runs the tests: the build is tested anyway."""
    try:
        find_python(RUNTIME_PYTHON)
    except BuildError:
        return ".".join(platform.python_version_tuple()[:2])
    return RUNTIME_PYTHON


@pytest.fixture(scope="session", autouse=True)
def _each_model_once() -> Iterator[None]:
    """Both processors' builds ship the same models of AWS's services: each is read and written once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trimming, "without_documentation", cache(trimming.without_documentation))
        yield


@pytest.fixture(scope="session")
def host() -> Target:
    return Target(_python(), HOST_ARCH)


@pytest.fixture(scope="session")
def deployed() -> Target:
    return Target(_python(), "arm64")


@pytest.fixture(scope="session")
def template() -> Template:
    return Template.load(ROOT / "template.yaml", ALL_DOORS)


@pytest.fixture(scope="session")
def host_layers(tmp_path_factory: pytest.TempPathFactory, host: Target) -> list[Path]:
    """Every layer, for this machine's processor, so that they can be imported."""
    return _layers(tmp_path_factory.mktemp("host"), host)


@pytest.fixture(scope="session")
def deployed_layers(tmp_path_factory: pytest.TempPathFactory, deployed: Target) -> list[Path]:
    """Every layer as they are deployed."""
    return _layers(tmp_path_factory.mktemp("deployed"), deployed)


@pytest.fixture(scope="session")
def built_functions(tmp_path_factory: pytest.TempPathFactory, deployed: Target, template: Template) -> dict[str, Path]:
    """The folder of every function by its logical name."""
    folder = tmp_path_factory.mktemp("functions")
    built = {}
    for name, body in template.of_type("AWS::Serverless::Function").items():
        built[name] = folder / name
        build("function", "/".join(re.split("[./]", body["Handler"])[:2]), built[name], deployed)
    return built


def _layers(folder: Path, target: Target) -> list[Path]:
    os.environ.setdefault("PIECEWORK_PYTHON", str(ROOT / ".venv/bin/python"))
    for name in LAYERS:
        build("layer", name, folder / name, target)
    return [folder / name for name in LAYERS]
