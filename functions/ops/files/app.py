"""The console's page and files: needs no credential, no table and no permission but its log's."""

from pathlib import Path
from typing import Any

from piecework.edge.ports import LambdaContext
from piecework.ops.console.files import ConsoleFiles, read_files, serve_files
from piecework.ops.wiring import OpsDoor

door = OpsDoor().ready("telemetry")
files = ConsoleFiles(read_files(Path(__file__).parent / "static"), door.called)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    return serve_files(files, event, context, door.telemetry)
