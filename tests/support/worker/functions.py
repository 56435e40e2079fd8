"""Functions of the worker door in the test's own process, with parts of their door replaced."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.support.worker.handlers import VARIABLES

PLACES = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "FACILITATOR_URL": "https://facilitator.example",
    **{f"PIECEWORK_{name}": "unused" for name in ("CONTRACTS_TABLE", "WORK_TABLE", "DUE_TABLE", "BUCKET")},
    **{f"PIECEWORK_{name}_QUEUE_URL": "unused" for name in ("TASK", "DUE", "WEBHOOK")},
}


@contextmanager
def worker_function(name: str, **parts: Any) -> Iterator[Any]:
    """The module of a function, imported anew; `parts` take the place of its door's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIECEWORK_", "AWS_"))}
    with mock.patch.dict(os.environ, {**kept, **VARIABLES, **PLACES}, clear=True):
        sys.modules.pop(f"worker.{name}.app", None)
        module = importlib.import_module(f"worker.{name}.app")
        vars(module.door).update(parts)
        yield module
        sys.modules.pop(f"worker.{name}.app", None)
