"""`python -m local.openapi [--check]`: writes docs/openapi/ from the code, or says which documents have drifted."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from local.openapi import kernel, runtime, worker
from local.openapi.parts import Schema

FOLDER: Final = Path(__file__).parents[2] / "docs" / "openapi"
DOCUMENTS: Final[Mapping[str, Callable[[], Schema]]] = {
    "runtime.json": runtime.document,
    "worker.json": worker.document,
    "kernel.json": kernel.document,
}


def main(arguments: list[str]) -> int:
    """Write all documents, or compare them; returns the exit status."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drifted = 0
    for name, document in DOCUMENTS.items():
        path, text = FOLDER / name, json.dumps(document(), indent=2, sort_keys=True) + "\n"
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
            continue
        same = path.is_file() and path.read_text("utf-8") == text
        drifted += not same
        print(f"docs/openapi/{name}", "is up to date" if same else "has drifted: run python -m local.openapi")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
