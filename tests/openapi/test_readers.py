"""Other people's tools read the OpenAPI documents: two linters, and a generator of Python clients."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from local.gateway.lambdas.variables import ROOT

DOCUMENTS = sorted((ROOT / "docs" / "openapi").glob("*.json"))
pytestmark = pytest.mark.slow  # test_openapi_documents.py holds what these tools have found, without them
LINTERS = ROOT / "build" / "openapi"
GENERATOR = ROOT / ".venv-openapi" / "bin" / "openapi-python-client"
REDOCLY_NODE = (20, 19)  # of Node.js, which the linter asks for
SECONDS = 300
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
package = importlib.import_module("made")
for module in pkgutil.walk_packages(package.__path__, "made."):
    importlib.import_module(module.name)
    print(module.name)
"""


@pytest.fixture(params=DOCUMENTS, ids=lambda path: path.stem)
def document(request) -> Path:
    found: Path = request.param
    return found


def linter(package: str, program: str) -> str:
    """A linter's program; skips the test where Node cannot run it."""
    needed = ".".join(map(str, REDOCLY_NODE))
    node = shutil.which("node")
    if not node or not shutil.which("npm"):
        pytest.skip(f"Node.js is not installed, so {package} cannot run: install {needed} or newer, with npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(int(part) for part in version.removeprefix("v").split(".")[:2]) < REDOCLY_NODE:
        pytest.skip(f"Node.js {version.strip()} is too old for {package}: install {needed} or newer")
    found = LINTERS / "node_modules" / ".bin" / program
    assert found.exists(), f"{package} is not installed: run `make build/openapi/.synced`"
    return str(found)


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "CI": "true", "HOME": str(folder)}
    environment = {"PATH": f"{GENERATOR.parent}:{_path()}", **quiet}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
    )


def _path() -> str:
    node = shutil.which("node")
    return f"{Path(node).parent}:/usr/bin:/bin" if node else "/usr/bin:/bin"


def test_redocly_finds_nothing(document, tmp_path):
    program = linter("@redocly/cli", "redocly")

    ended = run([program, "lint", "--format=json", str(document)], tmp_path)

    found = json.loads(ended.stdout[ended.stdout.index("{") :])
    assert (ended.returncode, found["problems"]) == (0, []), ended.stdout
    assert found["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}


def test_spectral_finds_nothing(document, tmp_path):
    program = linter("@stoplight/spectral-cli", "spectral")
    (tmp_path / "rules.yaml").write_text('extends: ["spectral:oas"]\n')

    ended = run([program, "lint", "--ruleset", "rules.yaml", "--fail-severity", "hint", str(document)], tmp_path)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_generated_client_imports(document, tmp_path):
    assert GENERATOR.exists(), "the generator is not installed: run `make .venv-openapi/.synced`"

    ended = run(
        [
            str(GENERATOR),
            "generate",
            "--meta",
            "none",
            "--path",
            str(document),
            "--output-path",
            str(tmp_path / "made"),
        ],
        tmp_path,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    for module in (tmp_path / "made").rglob("*.py"):
        ast.parse(module.read_text("utf-8"), str(module))
    python = str(GENERATOR.parent / "python")
    imported = run([python, "-c", IMPORT_ALL, str(tmp_path)], tmp_path)
    assert imported.returncode == 0, imported.stderr
    operations = json.loads(document.read_text("utf-8"))["paths"]
    assert len([name for name in imported.stdout.split() if name.count(".") == 3]) >= len(operations)
