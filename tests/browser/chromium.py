"""Finds the Chromium of the browser tests; `python -m tests.browser.chromium` says how to get it where it lacks."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHROMIUM: Final = "PIECEWORK_CHROMIUM"  # the path of another one than that on PATH
REQUIRED: Final = "PIECEWORK_BROWSER_TESTS"  # `required`: what is missing fails them, instead of leaving them out
NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
LEFT_OUT: Final = (
    "browser tests were left out: there is no Chromium here. On Debian: apt install chromium;"
    f" elsewhere put one on PATH, or name it in {CHROMIUM}"
)


def find_chromium(env: Mapping[str, str] = os.environ) -> str | None:
    """The path of Chromium, or None. One that is named and not there is not replaced by another."""
    if named := env.get(CHROMIUM):
        return named if Path(named).is_file() else None
    return next((found for name in NAMES if (found := shutil.which(name, path=env.get("PATH")))), None)


def main() -> int:
    """Print a line if browser tests were left out."""
    if find_chromium() is None:
        print(LEFT_OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
