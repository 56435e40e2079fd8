"""Every shell block of the README and of docs/ does what the page says, as it is printed, against a real `make run`.

The blocks of a page run in their order, in one shell, in a folder that has the checkout's files. A block in
`bash` is run; what cannot be (it needs AWS, or it is only the form of a command) stands in a block of another kind.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.aws import stop
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import ROOT
from tests.support.machine import free_base, wait_until

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"\b127\.0\.0\.1:87(\d\d)\b")
OURSELVES = re.compile(
    r"^(?:[\w=.:/-]+ |\\\n)*make (run|test|build|deploy)\b.*$", re.MULTILINE
)  # `make run` goes already
PAGES = sorted(
    path for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if BLOCK.search(path.read_text("utf-8"))
)
WITH_SETTINGS = {"docs/kernel/hosted-agents.md", "docs/completion.md"}  # pages whose `make run` has settings of its own
FIRST = 87  # the last digits of the first port as pages print it
SECONDS = 150


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text("utf-8"))


def yaml_of(page: str) -> str:
    """The first policy that a page shows."""
    return YAML.findall((ROOT / "docs" / f"{page}.md").read_text("utf-8"))[0]


class Checkout:
    """A folder with the checkout's files, and `make run` on ports of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.base = folder, free_base()
        for path in ROOT.iterdir():
            (folder / path.name).symlink_to(path)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PIECEWORK_"))}
        self.variables = {**kept, "PIECEWORK_PORT_BASE": str(self.base), "NO_PROXY": "*"}
        self.log = folder / "run.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                dying_with_parent("exec", sys.executable, "-m", "local.run"),
                cwd=ROOT,
                env={**self.variables, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: "Try next" in self.log.read_text() or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.log.read_text()

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as a reader would, from the first line to the first that fails."""
        here = PORT.sub(lambda match: f"127.0.0.1:{self.base + int(match[1]) - FIRST}", OURSELVES.sub(":", script))
        command = ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{here}"]
        return subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    (made.folder / "policy.yaml").write_text(yaml_of("kernel/policy"))
    yield made
    stop(made.process)


def pages_run() -> list[object]:
    """The pages; those of docs/ with every test, the README with the quick ones too."""
    plain = [page for page in PAGES if page_id(page) not in WITH_SETTINGS]
    return [pytest.param(page, id=page_id(page), marks=[pytest.mark.slow] * (page.stem != "README")) for page in plain]


@pytest.mark.parametrize("page", pages_run())
def test_the_commands_of_a_page_do_what_they_say(checkout, page):
    done = checkout.run("\n".join(blocks(page)))

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_hosted_agent_asks_a_person_and_ends(tmp_path):
    policy = tmp_path / "hosted.yaml"
    policy.write_text(yaml_of("kernel/hosted-agents"))
    (tmp_path / "checkout").mkdir()
    made = Checkout(tmp_path / "checkout", PIECEWORK_POLICY=str(policy))
    try:
        done = made.run("\n".join(blocks(ROOT / "docs" / "kernel" / "hosted-agents.md")))
    finally:
        stop(made.process)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "execution.completed" in done.stdout


@pytest.mark.slow
def test_the_page_of_the_completion_executor_leads_to_an_answer_after_two_repairs(tmp_path):
    (block,) = blocks(ROOT / "docs" / "completion.md")
    made = Checkout(tmp_path, **dict(re.findall(r"((?:PIECEWORK_PARAM|WATTETHERIA)_\w+)=(\S+)", block)))
    endpoint = subprocess.Popen(
        dying_with_parent("exec", sys.executable, "-m", "local.model_server", "--script", "misfit,misfit,good"),
        cwd=ROOT,
    )
    try:
        [asked] = re.findall(r"^curl -s http://127.0.0.1:8787/execute.*?'$", "\n".join(blocks(PAGES[0])), re.M | re.S)
        done = made.run(asked.replace("curl", "curl --retry 5 --retry-connrefused"))
    finally:
        stop(endpoint)
        stop(made.process)

    assert '"candidate_output"' in done.stdout, f"{done.stdout}\n{done.stderr}\n{made.log.read_text()}"
    assert '"InputTokens":[33.0]' in made.log.read_text()  # 11 a call: one, and two repairs


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_make_targets_of_a_page_exist(page):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert set(re.findall(r"^make ([a-z-]+)", "\n".join(blocks(page)), re.MULTILINE)) <= targets
