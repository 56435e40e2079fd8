"""The README's command line deploys a first stack: driven in a terminal where nobody answers, until it wants AWS."""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90
NO_STACK = (
    b'<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type>'
    b"<Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error></ErrorResponse>"
)
DENIED = NO_STACK.replace(b"ValidationError", b"AccessDenied").replace(b"Stack with id x does not exist", b"not yours")


class Aws(BaseHTTPRequestHandler):
    """CloudFormation of an account without a stack, which refuses to make one; remembers what it was asked."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
        action, stack = form.get("Action", [""])[0], form.get("StackName", [""])[0]
        self.asked.append((action, stack))
        body = NO_STACK if action == "DescribeStacks" else DENIED
        self.send_response(400 if action == "DescribeStacks" else 403)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def aws() -> Iterator[str]:
    Aws.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Aws)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def command_of_the_readme() -> list[str]:
    """The one command of the section on deploying, as words."""
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## Deploy\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    [words] = [shlex.split(line) for line in block.splitlines() if not line.startswith("#")]
    return words


def what_make_runs(words: list[str]) -> list[str]:
    """The last line of the recipe: what comes after the build."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not as a part of ours
    done = subprocess.run([*words, "-n"], cwd=ROOT, env=alone, capture_output=True, text=True, check=True)
    return shlex.split(done.stdout.splitlines()[-1])


def in_a_terminal(words: list[str], endpoint: str) -> tuple[int, str]:
    """Run a program whose terminal nobody types at; gives its exit status and all that it wrote."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_MAX_ATTEMPTS": "1",
        "SAM_CLI_TELEMETRY": "0",
    }
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words, cwd=ROOT, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    said, ends = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < ends:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    said += os.read(ours, 65_536)
                except OSError:  # the other side has closed
                    break
        return process.wait(5), said.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


def test_the_readme_deploys_with_one_command_and_three_values_at_most():
    words = command_of_the_readme()
    parameters = shlex.split(next(word for word in words if word.startswith("PARAMETERS=")).partition("=")[2])

    assert words[:2] == ["make", "deploy"]
    assert 2 <= 1 + len(parameters) <= 3  # the stack's name is a value, too
    program = what_make_runs(words)
    assert program[1:4] == ["-m", "local.deploy", "--stack"]
    assert program[-len(parameters) :] == parameters


@pytest.mark.slow
def test_the_readmes_command_asks_nothing_before_it_wants_aws(aws):
    program = [sys.executable, *what_make_runs(command_of_the_readme())[1:]]

    status, said = in_a_terminal(program, aws)

    assert status != 0  # this account refuses
    assert Aws.asked[0] == ("DescribeStacks", "piecework")
    assert ("DescribeStacks", "aws-sam-cli-managed-default") in Aws.asked  # SAM's own bucket: past all questions
    assert not re.findall(r"\[y/N\]|\[Y/n\]|Parameter \w+|has no authentication", said), said
