"""Functions of the kernel door in the test's own process, with parts of their door replaced."""

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

VARIABLES = {
    "AWS_DEFAULT_REGION": "eu-west-1",
    "POWERTOOLS_METRICS_NAMESPACE": "Piecework",
    "PIECEWORK_KERNEL_TABLE": "unused",
    "PIECEWORK_DUE_TABLE": "unused",
    "PIECEWORK_BUCKET": "unused",
    "PIECEWORK_KERNEL_HOSTED_QUEUE_URL": "unused",
}


@contextmanager
def kernel_function(name: str, settings: dict[str, str] | None = None, **parts: Any) -> Iterator[Any]:
    """The module of the function `due`, `hosted`, `http` or `streams`; `parts` take the place of its door's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_", "REBUNO_"))}
    with mock.patch.dict(os.environ, {**kept, **VARIABLES, **(settings or {})}, clear=True):
        sys.modules.pop(f"kernel.{name}.app", None)
        module = importlib.import_module(f"kernel.{name}.app")
        vars(module.door).update(parts)
        loop = asyncio.get_event_loop() if name == "http" else None  # it makes one for Mangum when it is imported
        yield module
        sys.modules.pop(f"kernel.{name}.app", None)
        if loop:
            loop.close()


@contextmanager
def streams_function(stage: Any, hints: Any, **parts: Any) -> Iterator[Any]:
    """The streams function over the stores of a stage."""
    with kernel_function("streams", streams=stage.streams, hints=hints, **parts) as module:
        module.hub.listen_to(hints)
        module.hub.keep(stage.keeper.keep)
        yield module
