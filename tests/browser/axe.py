"""axe, put into the page by `evaluate`, so that the page's policy stays as it is."""

import os
from typing import Any

import pytest
from playwright.sync_api import Page

from local.gateway.lambdas.variables import ROOT
from tests.browser.chromium import REQUIRED

AXE = ROOT / "build/node/node_modules/axe-core/axe.min.js"
NOT_INSTALLED = "axe, which finds what people cannot read, is not installed: run `make build/node/.synced` (needs npm)"
GRAVE = {"serious", "critical"}


def findings(page: Page) -> list[str]:
    """What axe finds serious on the page as it stands."""
    if not AXE.is_file():
        (pytest.fail if os.environ.get(REQUIRED) == "required" else pytest.skip)(NOT_INSTALLED)
    page.evaluate(AXE.read_text("utf-8"))
    result: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [_said(found) for found in result["violations"] if found["impact"] in GRAVE]


def _said(found: dict[str, Any]) -> str:
    return f"{found['id']}: {found['help']}: {[node['html'][:200] for node in found['nodes'][:3]]}"
