"""The target of a build: the Python version and processor of the functions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

RUNTIME_PYTHON: Final = "3.13"  # the Runtime of template.yaml
RUNTIME_ARCH: Final = "arm64"
ELF_MACHINES: Final = {"arm64": 183, "x86_64": 62}  # e_machine of the ELF header
# Amazon Linux 2023 has glibc 2.34, so wheels for 2.28 and older load.
UV_PLATFORMS: Final = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}


class BuildError(Exception):
    """The build cannot make an artifact that runs; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A Python version (`3.13`) and an architecture as Lambda names it."""

    python: str = RUNTIME_PYTHON
    arch: str = RUNTIME_ARCH

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """The deployed target, unless PIECEWORK_BUILD_ARCH or PIECEWORK_BUILD_PYTHON name another.

        Raises:
            BuildError: Lambda does not have this architecture.
        """
        target = cls(env.get("PIECEWORK_BUILD_PYTHON", RUNTIME_PYTHON), env.get("PIECEWORK_BUILD_ARCH", RUNTIME_ARCH))
        if target.arch not in ELF_MACHINES:
            raise BuildError(f"PIECEWORK_BUILD_ARCH must be one of {', '.join(ELF_MACHINES)}")
        return target

    @property
    def platform(self) -> str:
        """uv's name of the platform."""
        return UV_PLATFORMS[self.arch]

    @property
    def elf_machine(self) -> int:
        """The processor's number in a shared object."""
        return ELF_MACHINES[self.arch]

    @property
    def cpython_tag(self) -> str:
        """The interpreter's tag in the file name of an extension module."""
        return "cpython-" + self.python.replace(".", "")
