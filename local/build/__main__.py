"""`python -m local.build layer NAME OUT` or `function NAME OUT`: build one artifact and check it."""

import argparse
import sys
from pathlib import Path

from local.build.assemble import (
    build_executors_layer,
    build_function,
    build_kernel_layer,
    build_ops_layer,
    build_piecework_layer,
    build_worker_layer,
)
from local.build.findings import findings, folder_bytes
from local.build.target import BuildError, Target

LAYERS = {
    "piecework": build_piecework_layer,
    "executors": build_executors_layer,
    "worker": build_worker_layer,
    "kernel": build_kernel_layer,
    "ops": build_ops_layer,
}


def build(kind: str, name: str, out: Path, target: Target) -> None:
    """Build into `out`.

    Raises:
        BuildError: it cannot be built, or would not run on Lambda.
    """
    if kind == "function":
        build_function(name, out, target)
    else:
        LAYERS[name](out, target)
    if problems := findings(out, target):
        raise BuildError("\n".join(problems))


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, build, and print the size of the result."""
    parser = argparse.ArgumentParser(prog="local.build")
    parser.add_argument("kind", choices=("layer", "function"))
    parser.add_argument("name")
    parser.add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    try:
        target = Target.from_env()
        build(given.kind, given.name, given.out.resolve(), target)
    except BuildError as error:
        print(f"build of {given.kind} {given.name} failed: {error}", file=sys.stderr)
        return 1
    size = folder_bytes(given.out) / 1_000_000
    print(f"{given.kind} {given.name}: {size:.1f} MB for Python {target.python} on {target.arch}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
