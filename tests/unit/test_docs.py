"""What the documentation names exists: tests that hold limits, files, and constants."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TESTS = frozenset(
    name for path in ROOT.glob("tests/**/*.py") for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_test_that_a_page_names_exists(page):
    text = page.read_text("utf-8")

    named = set(re.findall(r"`(test_\w+)`", text))
    files = {name for name in re.findall(r"`(tests/[\w./-]+)`", text) if not (ROOT / name).exists()}

    assert named - TESTS == set()
    assert files == set()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_page_that_a_page_links_to_exists(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_row_of_the_limits_names_what_holds_it():
    lines = (ROOT / "docs/limits.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| what |")]

    assert rows
    assert [row for row in rows if not re.search(r"`(?:test_\w+|tests/[\w./]+)` *(?:, `test_\w+`)* *\|$", row)] == []


def test_every_constant_of_the_limits_stands_in_the_module_that_is_named():
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    modules = [path for top in ("cli", "functions", "layers") for path in (ROOT / top).rglob("*.py")]

    named = re.findall(r"`([a-z_0-9.]+)\.([A-Z][A-Z_0-9]+)`", text)

    assert len(named) > 50
    assert [
        f"{module}.{constant}"
        for module, constant in named
        if not any(
            re.search(rf"^{constant}\b", path.read_text("utf-8"), re.MULTILINE)
            for path in modules
            if ("/" + str(path.with_suffix("")).removesuffix("/__init__")).endswith("/" + module.replace(".", "/"))
        )
    ] == []


def test_no_limit_stands_twice_in_a_table():
    tables = (ROOT / "docs/limits.md").read_text("utf-8").split("\n\n")
    limits = [[row.split(" | ")[0] for row in table.splitlines() if row.startswith("| ")] for table in tables]

    assert [names for names in limits if len(names) != len(set(names))] == []
