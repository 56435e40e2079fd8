"""What a newcomer gets wrong is answered at once, in one sentence that says what to do."""

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from local.gateway.lambdas.variables import ROOT
from piecework_cli.main import main


def sentence_of(capsys) -> str:
    """What the command said on standard error: one line."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def door():
    """A server that answers every request as it is told."""
    told = {"status": 404, "body": b"{}", "paths": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            told["paths"].append(self.path)
            self.send_response(told["status"])
            self.send_header("content-length", str(len(told["body"])))
            self.end_headers()
            self.wfile.write(told["body"])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with server:
        yield told | {"url": f"http://127.0.0.1:{server.server_port}", "told": told}
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ClientError({"Error": {"Code": "ValidationError"}}, "DescribeStacks"), "does not exist"),
        (ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks"), "may not read the stack shop"),
        (ClientError({"Error": {"Code": "ExpiredToken"}}, "DescribeStacks"), "sign in again"),
        (ClientError({"Error": {"Code": "Throttling"}}, "DescribeStacks"), "try again"),
        (NoCredentialsError(), "AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="https://x"), "check the network"),
    ],
)
@pytest.mark.parametrize("command", [["exec", "ls"], ["payment", "list"]])
def test_a_stack_that_cannot_be_read_is_told_with_what_to_do(monkeypatch, capsys, command, error, words):
    class Refusing:
        def __getattr__(self, name):
            def call(**_):
                raise error

            return call

    monkeypatch.setattr("boto3.client", lambda *_: Refusing())

    assert main(["--stack", "shop", *command]) == 1
    assert words in sentence_of(capsys)


@pytest.mark.parametrize("path", ["", "/", "/v0", "/v0/"])
def test_a_kernels_address_may_end_in_v0(door, capsys, path):
    door["told"] |= {"status": 200, "body": b'{"executions": [], "next_cursor": ""}'}

    assert main(["exec", "--kernel", door["url"] + path, "ls"]) == 0
    assert door["paths"][0].startswith("/v0/executions?")


def test_another_doors_address_is_not_taken_for_a_kernels(door, capsys):
    door["told"] |= {"body": b'{"error": "this path does not exist; see GET /capabilities", "code": "not_found"}'}

    assert main(["exec", "--kernel", door["url"], "ls"]) == 1
    assert "is not a kernel door" in sentence_of(capsys)


def test_a_kernels_own_refusal_is_told_in_its_words(door, capsys):
    door["told"] |= {"body": b'{"error": "execution not found", "code": "NOT_FOUND", "details": null}'}

    assert main(["exec", "--kernel", door["url"], "get", "x"]) == 1
    assert sentence_of(capsys) == "piecework: 404: execution not found"


def test_another_doors_address_is_not_taken_for_a_workers(door, capsys):
    door["told"] |= {"body": b'{"error": "this path does not exist; see GET /capabilities", "code": "not_found"}'}

    assert main(["--url", door["url"], "task", "show", "ctr_1", "t"]) == 1
    assert "is not a worker door" in sentence_of(capsys)


@pytest.mark.parametrize("base", ["abc", "0", "-1", "70000", "8787x", "٨٧٨٧", "9" * 5000])
def test_a_port_that_is_not_a_number_is_told(monkeypatch, capsys, base):
    monkeypatch.setenv("PIECEWORK_PORT_BASE", base)

    assert main(["exec", "ls"]) == 1
    assert "PIECEWORK_PORT_BASE must be a number from 1 to 65530" in sentence_of(capsys)


def test_a_reader_that_leaves_ends_the_command_quietly(door):
    row = b'{"id": "%s", "status": "running", "created_at": "t", "agent_id": "a", "labels": {}}' % (b"e" * 200)
    door["told"] |= {
        "status": 200,
        "body": b'{"executions": [' + b",".join([row] * 2000) + b'], "next_cursor": ""}',
    }
    read, write = os.pipe()
    os.close(read)

    ended = subprocess.run(
        [sys.executable, "-m", "piecework_cli.main", "exec", "--kernel", door["url"], "ls"],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        check=False,
        timeout=60,
    )
    os.close(write)

    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PIECEWORK_PORT_BASE": "abc"}, "not started: PIECEWORK_PORT_BASE must be a number"),
        ({"PIECEWORK_POLICY": "nofile.yaml"}, "not started: PIECEWORK_POLICY=nofile.yaml: "),
        ({"REBUNO_POLICY": "nofile.yaml"}, "not started: PIECEWORK_POLICY=nofile.yaml: "),
    ],
)
def test_make_run_says_at_once_which_setting_is_wrong(settings, words):
    started = subprocess.run(
        [sys.executable, "-m", "local.run"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert started.returncode == 1
    (line,) = started.stderr.splitlines()
    assert line.startswith(words)


def test_make_names_the_interpreter_that_it_cannot_use(tmp_path):
    for name in ("Makefile", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)

    made = subprocess.run(
        ["make", "PYTHON=python9", ".venv-uv/.synced"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert made.returncode == 2
    assert "python9 is not a Python 3.11 or newer; name one that is installed" in made.stderr
    assert "127" not in made.stderr


def test_the_command_of_a_checkout_says_when_it_is_not_set_up(tmp_path):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "piecework"
    command.write_bytes((ROOT / "bin" / "piecework").read_bytes())
    command.chmod(0o755)

    ended = subprocess.run([str(command), "exec", "ls"], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (1, "piecework: not set up yet; run `make run` once\n")


def test_the_local_workers_key_file_can_be_made(tmp_path, capsys):
    path = tmp_path / "worker.key"

    assert main(["key", "local", str(path)]) == 0
    assert capsys.readouterr().out == "0x1563915e194D8CfBA1943570603F7606A3115508\n"
    assert main(["key", "local", str(path)]) == 1
    assert "already exists" in sentence_of(capsys)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_region_that_the_advice_names_is_the_one_that_is_read(monkeypatch):
    import boto3

    from piecework_cli.stacks import _client

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)

    assert _client("cloudformation").meta.region_name == "eu-central-1"
