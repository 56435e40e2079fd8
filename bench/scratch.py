"""The folders of the benchmarks: every contender and its libraries, with byte code in the same state.

A function's layer ships unchecked-hash byte code, so everything here gets it: our packages, the functions, the
baselines and the libraries of all of them. The virtual environment itself is not used.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.gateway.lambdas.variables import ROOT

# of the runtime itself and the baselines
BESIDE: Final = ("awslambdaric", "aws-lambda-powertools", "boto3", "fastapi", "jsonschema", "mangum", "pydantic")
OWN: Final = ("layers/piecework/piecework", "layers/executors")
STAMP: Final = "libraries.txt"


@dataclass(frozen=True, slots=True)
class Scratch:
    """The places of the copies, and the tree from which the functions and their layers come."""

    folder: Path
    root: Path = ROOT

    @property
    def python(self) -> Path:
        """Libraries and layers, as `/opt/python` holds them."""
        return self.folder / "python"

    def path_of(self, code: str) -> str:
        """The PYTHONPATH of a contender with its own code in the folder `code`."""
        return os.pathsep.join((str(self.folder / code), str(self.python)))


def libraries(root: Path = ROOT) -> tuple[str, ...]:
    """The requirements of a tree's layers, with their extras, and those of the contenders."""
    lines = (
        line for file in (root / "layers").glob("*/requirements.in") for line in file.read_text("utf-8").splitlines()
    )
    asked = (line.partition("#")[0].strip() for line in lines)
    return (*BESIDE, *sorted({line for line in asked if line and not line.startswith("-")}))


def prepare(folder: Path, root: Path = ROOT) -> Scratch:
    """Copy and compile everything; libraries that are already there in the same versions stay."""
    scratch = Scratch(folder, root)
    distributions = closure(libraries(root))
    stamp = "\n".join((sys.version, *sorted(f"{name}=={found.version}" for name, found in distributions.items())))
    stamp_file = folder / STAMP
    if not stamp_file.is_file() or stamp_file.read_text() != stamp:
        shutil.rmtree(folder, ignore_errors=True)
        for source, relative in library_files(distributions.values()):
            link(source, scratch.python / relative)
        compile_all(scratch.python)
        stamp_file.write_text(stamp)
    copy_own(scratch)
    return scratch


def closure(requirements: Iterable[str]) -> Mapping[str, metadata.Distribution]:
    """The installed distributions that these requirements name, and all that those need, by canonical name.

    An extra counts where it is asked for (`pyjwt[crypto]`). A marker that is not true here leaves a requirement out.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = [(Requirement(line), frozenset({""})) for line in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        asked, extras = waiting.pop()
        if asked.marker and not any(asked.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name, wanted = canonicalize_name(asked.name), frozenset({"", *asked.extras})
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        found[name] = metadata.distribution(name)
        waiting.extend((Requirement(line), wanted) for line in found[name].requires or ())
    return found


def library_files(distributions: Iterable[metadata.Distribution]) -> Iterator[tuple[Path, Path]]:
    """Every file of the distributions, with its path inside their installation folder."""
    for distribution in distributions:
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                yield Path(str(distribution.locate_file(file))), Path(*file.parts)


def link(source: Path, target: Path) -> None:
    """Link a file, or copy it where a link is impossible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        pass  # two distributions have this file, and only one is installed
    except OSError:
        shutil.copy2(source, target)


def copy_own(scratch: Scratch) -> None:
    """Copy our packages, the functions, the baselines and the probes, and write the manifest of executors."""
    here = Path(__file__).parent
    copies = {scratch.python / Path(name).name: scratch.root / name for name in OWN}
    copies |= {scratch.folder / "functions": scratch.root / "functions"}
    copies |= {scratch.folder / name: here / name for name in ("baselines", "probes")}
    for target, source in copies.items():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = (sys.executable, "-m", "piecework.extend.manifest", str(scratch.python / "executors" / "manifest.json"))
    subprocess.run(manifest, check=True, env={**os.environ, "PYTHONPATH": str(scratch.python)})
    compile_all(*copies)


def compile_all(*folders: Path) -> None:
    """Write unchecked-hash byte code, like the build of the layers."""
    command = (sys.executable, "-m", "compileall", "-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash")
    subprocess.run((*command, *map(str, folders)), check=False, stdout=subprocess.DEVNULL)
