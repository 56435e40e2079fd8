"""The template is valid to the tools that would deploy it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


pytestmark = pytest.mark.slow  # `make check` runs the same two commands


def test_cfn_lint_has_nothing_to_say():
    ended = run(".venv/bin/cfn-lint", "template.yaml")

    assert (ended.returncode, ended.stdout) == (0, "")


def test_sam_finds_the_template_valid():
    ended = run(".venv-sam/bin/sam", "validate", "--lint", "--template", "template.yaml")

    assert ended.returncode == 0, ended.stderr
    assert "is a valid SAM Template" in ended.stdout
