"""Finds problems in a built folder that would fail, or be slow, only on Lambda."""

import struct
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from local.build.target import Target
from local.build.tools import find_python

LIMIT_BYTES: Final = 250 * 1024 * 1024  # a function and its layers, unpacked
UNCHECKED_HASH: Final = 0b01  # flags of a .pyc: hash-based, without a check of the source


def findings(folder: Path, target: Target) -> list[str]:
    """One line per problem; empty when all is well."""
    problems = [*_wrong_objects(folder, target), *_wrong_bytecode(folder, target)]
    size = folder_bytes(folder)
    if size > LIMIT_BYTES:
        problems.append(f"{folder.name}: {size} bytes unpacked, over Lambda's {LIMIT_BYTES}")
    return problems


def folder_bytes(folder: Path) -> int:
    """The size of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _wrong_objects(folder: Path, target: Target) -> Iterator[str]:
    for file in sorted(folder.rglob("*.so*")):
        name = file.relative_to(folder)
        if (machine := _elf_machine(file)) != target.elf_machine:
            yield f"{name}: made for ELF machine {machine}, not {target.elf_machine} ({target.arch})"
        if ".cpython-" in file.name and f".{target.cpython_tag}-" not in file.name:
            yield f"{name}: made for another Python than {target.python}"


def _elf_machine(file: Path) -> int | None:
    header = _head(file, 20)
    if len(header) < 20 or not header.startswith(b"\x7fELF"):
        return None
    machine: int = struct.unpack_from("<H", header, 18)[0]
    return machine


def _wrong_bytecode(folder: Path, target: Target) -> Iterator[str]:
    magic = _magic_number(target.python)
    tag = target.cpython_tag
    for source in sorted(folder.rglob("*.py")):
        name = source.relative_to(folder)
        compiled = source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc"
        if not compiled.is_file():
            yield f"{name}: no byte code for Python {target.python}"
            continue
        head = _head(compiled, 8)
        if head[:4] != magic:
            yield f"{name}: byte code of another Python than {target.python}"
        elif struct.unpack_from("<I", head, 4)[0] != UNCHECKED_HASH:
            yield f"{name}: byte code that would be checked against its source"


@cache
def _magic_number(version: str) -> bytes:
    command = [find_python(version), "-c", "import importlib.util as u; print(u.MAGIC_NUMBER.hex())"]
    return bytes.fromhex(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _head(file: Path, length: int) -> bytes:
    with file.open("rb") as stream:
        return stream.read(length)
