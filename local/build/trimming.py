"""Leaves out of a library what no call reads, most of all the documentation in botocore's models of AWS's services."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

MODELS: Final = "botocore/data/*/*/service-2.json.gz"
UNREAD: Final = (
    "botocore/data/*/*/examples-1.json*",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.js",  # pages that show an API in a browser
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.css",
)


def trim(library: Path) -> None:
    """Delete files that no call reads, and write every model without its documentation."""
    for pattern in UNREAD:
        for file in library.glob(pattern):
            file.unlink()
    for model in library.glob(MODELS):
        model.write_bytes(without_documentation(model.read_bytes()))


def without_documentation(model: bytes) -> bytes:
    """A gzipped model without its texts; the same bytes for the same model, so that builds stay comparable."""
    plain = json.loads(gzip.decompress(model), object_hook=_undocumented)
    return gzip.compress(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode(), mtime=0)


def _undocumented(part: dict[str, Any]) -> dict[str, Any]:
    """Without a text named `documentation`; what is not text is a member of a shape that has this name."""
    if isinstance(part.get("documentation"), str):
        del part["documentation"]
    return part
