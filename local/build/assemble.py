"""Assembles the folder of a layer or a function: sources, locked wheels, manifest, byte code."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from local.build.target import BuildError, Target
from local.build.tools import ROOT, find_python, find_uv
from local.build.trimming import trim

LAYERS: Final = ROOT / "layers"
FUNCTIONS: Final = ROOT / "functions"
SOURCES_ONLY: Final = shutil.ignore_patterns("__pycache__", "*.pyc", "requirements.*")
REQUIREMENTS: Final = "requirements.txt"
UNNEEDED: Final = ("bin", ".lock")  # console scripts and uv's own lock, which Lambda does not need


def build_piecework_layer(out: Path, target: Target) -> None:
    """Our layer: the package and its packages, under `python/`."""
    library = _fresh(out) / "python"
    install(LAYERS / "piecework" / "requirements.txt", library, target)
    shutil.copytree(LAYERS / "piecework" / "piecework", library / "piecework", ignore=SOURCES_ONLY)
    compile_bytecode(library, target)


def build_executors_layer(out: Path, target: Target) -> None:
    """Your layer: the executors, their packages that our layer lacks, and their manifest."""
    library = _fresh(out) / "python"
    _install_beyond([LAYERS / "piecework"], LAYERS / "executors", library, target)
    shutil.copytree(LAYERS / "executors", library / "executors", ignore=SOURCES_ONLY)
    write_manifest(library / "executors" / "manifest.json")
    compile_bytecode(library, target)


def build_worker_layer(out: Path, target: Target) -> None:
    """The packages that only the worker door imports."""
    library = _fresh(out) / "python"
    _install_beyond([LAYERS / "piecework"], LAYERS / "worker", library, target)
    compile_bytecode(library, target)


def build_kernel_layer(out: Path, target: Target) -> None:
    """The packages that only the kernel door imports."""
    library = _fresh(out) / "python"
    _install_beyond([LAYERS / "piecework"], LAYERS / "kernel", library, target)
    compile_bytecode(library, target)


def build_ops_layer(out: Path, target: Target) -> None:
    """The packages that check the sign-in of people at the operator's door."""
    library = _fresh(out) / "python"
    _install_beyond([LAYERS / "piecework"], LAYERS / "ops", library, target)
    compile_bytecode(library, target)


def build_function(name: str, out: Path, target: Target) -> None:
    """A function's own folder, with its own packages if it has requirements.

    Raises:
        BuildError: the folder does not exist.
    """
    source = FUNCTIONS / name
    if not (source / "app.py").is_file():
        raise BuildError(f"functions/{name}/app.py does not exist")
    shutil.copytree(source, _fresh(out) / name, ignore=SOURCES_ONLY)
    shutil.copy2(source.parent / "__init__.py", out / source.parent.name)
    if (source / REQUIREMENTS).is_file():
        layers = [LAYERS / "piecework", LAYERS / source.parent.name]
        _install_beyond([layer for layer in layers if layer.is_dir()], source, out, target)
    compile_bytecode(out, target, processes=1)


def install(requirements: Path, library: Path, target: Target) -> None:
    """Unpack exactly the locked wheels, without a build from source, so that this works for another processor.

    What no call reads is left out.
    """
    library.mkdir(parents=True, exist_ok=True)
    if not locked_packages(requirements.read_text("utf-8")):
        return
    made_for = ["--python", sys.executable, "--python-version", target.python, "--python-platform", target.platform]
    exactly = [
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--no-deps",
        "--link-mode",
        "copy",
        "--no-config",
        "--quiet",
    ]
    _run([find_uv(), "pip", "install", "--target", str(library), *made_for, *exactly, "-r", str(requirements)])
    for name in UNNEEDED:
        leftover = library / name
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)
    trim(library)


def write_manifest(out: Path) -> None:
    """Import every executor once and write the manifest of what it registers."""
    path = os.pathsep.join([str(LAYERS / "piecework"), str(LAYERS)])
    python = os.environ.get("PIECEWORK_PYTHON") or sys.executable
    _run([python, "-m", "piecework.extend.manifest", str(out)], {"PYTHONPATH": path}, says="")


def compile_bytecode(folder: Path, target: Target, processes: int = 0) -> None:
    """Byte code that Python uses without a check of its source: /opt is read-only, and zip files change time stamps.

    0 processes are one for each processor; a few files are compiled before other processes have started.
    """
    options = ["-q", "-f", "-j", str(processes), "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/"]
    _run([find_python(target.python), "-m", "compileall", *options, str(folder)])


def locked_packages(text: str) -> dict[str, str]:
    """The blocks of a hashed requirements file by package name."""
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return {found[0]: block for block in blocks if (found := re.match(r"[A-Za-z0-9._-]+(?===)", block))}


def _install_beyond(layers: Sequence[Path], folder: Path, library: Path, target: Target) -> None:
    """Install the requirements of the folder that the layers below it do not have."""
    present = {name for layer in layers for name in locked_packages((layer / REQUIREMENTS).read_text("utf-8"))}
    wanted = locked_packages((folder / REQUIREMENTS).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        own = Path(scratch) / REQUIREMENTS
        own.write_text("".join(block for name, block in wanted.items() if name not in present), "utf-8")
        install(own, library, target)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _run(command: Sequence[str], variables: dict[str, str] | None = None, says: str | None = None) -> None:
    """Run a command; on failure `says` stands before its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(command, env=environment | (variables or {}), capture_output=True, text=True, check=False)
    if ended.returncode:
        before = f"{Path(command[0]).name} failed:\n" if says is None else says
        raise BuildError(f"{before}{ended.stdout}{ended.stderr}".rstrip())
