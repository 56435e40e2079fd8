"""The sizes of the layers: unpacked, as Lambda's limit counts them, and zipped, as a start fetches them."""

import tempfile
import zipfile
from pathlib import Path
from typing import Final

from local.build.__main__ import LAYERS, build
from local.build.findings import folder_bytes
from local.build.target import Target

MEGABYTE: Final = 1_000_000
RUNTIME_DOOR: Final = ("piecework", "executors")  # the layers of its functions


def measure() -> dict[str, float]:
    """MB of each layer, and of those of the runtime door together."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in LAYERS:
            layer = Path(folder) / name
            build("layer", name, layer, Target.from_env())
            figures[f"layer_{name}_mb"] = folder_bytes(layer) / MEGABYTE
            figures[f"layer_{name}_zip_mb"] = zipped_bytes(layer) / MEGABYTE
    return {**figures, "layer_zip_mb": sum(figures[f"layer_{name}_zip_mb"] for name in RUNTIME_DOOR)}


def zipped_bytes(folder: Path) -> int:
    """The size of the archive that a deployment makes of a folder."""
    with tempfile.TemporaryFile() as out:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                archive.write(file, file.relative_to(folder))
        return out.tell()
