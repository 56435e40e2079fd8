"""Finds the programs that a build needs: uv, and a Python of the runtime's own minor version."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from local.build.target import BuildError

ROOT = Path(__file__).resolve().parents[2]


def find_uv() -> str:
    """The uv of this repository, else the one on PATH.

    Raises:
        BuildError: uv was not found.
    """
    for candidate in (os.environ.get("PIECEWORK_UV", ""), str(ROOT / ".venv-uv/bin/uv"), shutil.which("uv") or ""):
        if candidate and Path(candidate).is_file():
            return candidate
    raise BuildError("uv is not set up: run `make build` instead of building by hand")


def find_python(version: str) -> str:
    """An interpreter of exactly this minor version, because Lambda would ignore byte code of another.

    Raises:
        BuildError: this machine does not have one.
    """
    for candidate in _pythons(version):
        if _version_of(candidate) == version:
            return candidate
    raise BuildError(
        f"python{version} was not found; the byte code must come from the runtime's own version. "
        f"Install it, or name it: PIECEWORK_BUILD_INTERPRETER=/path/to/python{version}"
    )


def _pythons(version: str) -> Iterator[str]:
    yield os.environ.get("PIECEWORK_BUILD_INTERPRETER", "")
    yield sys.executable
    yield shutil.which(f"python{version}") or ""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(versions.glob(f"{version}.*"), reverse=True):  # a pyenv shim refuses unselected versions
        yield str(folder / "bin" / f"python{version}")


@cache
def _version_of(python: str) -> str | None:
    if not python or not Path(python).exists():
        return None
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
