"""`python -m local.openapi [--check]`: writes what docs/ has from the code, or says which documents have drifted."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from local.openapi import kernel, ops, roles, runtime, worker
from local.openapi.parts import Schema

DOCS: Final = Path(__file__).parents[2] / "docs"
FOLDER: Final = DOCS / "openapi"
DOCUMENTS: Final[Mapping[str, Callable[[], Schema]]] = {
    "runtime.json": runtime.document,
    "worker.json": worker.document,
    "kernel.json": kernel.document,
    "ops.json": ops.document,
}
PAGES: Final[Mapping[str, Callable[[], str]]] = {"kernel/roles.md": roles.page}


def main(arguments: list[str]) -> int:
    """Write all documents, or compare them; returns the exit status."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drifted = 0
    for path, text in texts().items():
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
            continue
        same = path.is_file() and path.read_text("utf-8") == text
        drifted += not same
        name = path.relative_to(DOCS.parent)
        print(name, "is up to date" if same else "has drifted: run python -m local.openapi")
    return 1 if drifted else 0


def texts() -> dict[Path, str]:
    """What each generated file holds."""
    written = {FOLDER / name: json.dumps(made(), indent=2, sort_keys=True) + "\n" for name, made in DOCUMENTS.items()}
    return written | {DOCS / name: made() for name, made in PAGES.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
