"""The cases of the three specifications, asked of fakes and the local gateway, or of any URL (`make conformance`)."""

from pathlib import Path

import pytest

from tests.support.served import url_run


def pytest_configure(config: pytest.Config) -> None:
    if url_run.url():
        url_run.begin()
        config.option.markexpr = ""  # what is slow inside is not left out of a run over a URL


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    others = url_run.ASKED_FIRST.keys() - {url_run.given("DOOR")} if url_run.url() else set()
    return True if collection_path.parent == url_run.FOLDER and collection_path.name in others else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if url_run.url():
        url_run.choose(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if url_run.url():
        url_run.summary(terminalreporter, config)
