"""The deployed template, as written and resolved with given parameters."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from local.template import Template, _Loader

ROOT = Path(__file__).resolve().parents[2]
Load = Callable[..., Template]


@cache
def _raw() -> dict[str, Any]:
    loader = _Loader((ROOT / "template.yaml").read_text("utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def raw_template() -> dict[str, Any]:
    return _raw()


@pytest.fixture
def load_template() -> Load:
    def load(**parameters: str) -> Template:
        return Template(_raw(), ROOT, parameters)

    return load


@pytest.fixture
def template(load_template: Load) -> Template:
    return load_template()
