"""Cold starts are believed: all contenders get the same variables, and each of them verifies its AWS."""

import os
import socket
import subprocess
import sysconfig
from pathlib import Path

import pytest

from bench.cold import starts
from bench.cold.certificates import system_certificates
from bench.cold.stubs import RuntimeApi, serving
from bench.contenders import OTHERS, OWN, environment, settings
from bench.figures import medians, ratios
from bench.parts import Run, cold_part
from bench.processes import resident_mb
from bench.report import PAIRS
from bench.scratch import Scratch

ROOT = Path(__file__).parents[2]
CALLERS = [one for one in (*OWN, *OTHERS) if one.name not in {"bare", "boto3", "verify", "capabilities"}]
QUICK = {"execute", "authorizer_boto3"}


class Checkout:
    """The checkout and its virtual environment, in the place of compiled copies."""

    folder = root = ROOT

    def path_of(self, code: str) -> str:
        own = ROOT / code if code == "functions" else ROOT / "bench" / code
        folders = (own, ROOT / "layers/piecework", ROOT / "layers", sysconfig.get_path("purelib"))
        return os.pathsep.join(map(str, folders))


@pytest.fixture(scope="module")
def aws():
    with starts.aws() as variables:
        yield variables


@pytest.mark.parametrize(
    "contender",
    [pytest.param(one, id=one.name, marks=[] if one.name in QUICK else pytest.mark.slow) for one in CALLERS],
)
def test_a_contender_that_calls_aws_verifies_it(contender, aws, tmp_path):
    strangers = tmp_path / "strangers.pem"
    strangers.write_bytes(system_certificates())

    assert starts.start(Checkout(), contender, aws).cold > 0
    with pytest.raises(starts.BenchFailed):
        starts.start(Checkout(), contender, {**aws, "AWS_CA_BUNDLE": str(strangers)})


def test_a_process_that_has_answered_waits_to_be_looked_at():
    api = RuntimeApi(b"{}")
    with serving(api), socket.create_connection(("127.0.0.1", api.server_port), timeout=0.3) as process:
        process.sendall(b"GET /next HTTP/1.1\r\nHost: api\r\n\r\n")
        assert b"200" in process.recv(4_096)
        process.sendall(b"GET /next HTTP/1.1\r\nHost: api\r\n\r\n")

        assert [api.marks.get(timeout=1)[1], api.marks.get(timeout=1)[1]] == [b"", b""]
        with pytest.raises(TimeoutError):
            process.recv(1)


def test_a_process_that_has_ended_holds_no_memory_that_could_be_told():
    process = subprocess.Popen(("true",), stdin=subprocess.DEVNULL)
    process.wait()

    with pytest.raises(ProcessLookupError):
        resident_mb(process.pid)


def test_the_contenders_variables_differ_only_in_where_their_code_lies():
    ours, theirs = (environment(Checkout(), code) for code in ("functions", "baselines"))

    assert ours.pop("PYTHONPATH") != theirs.pop("PYTHONPATH")
    assert ours == theirs
    assert ours["PIECEWORK_RUNTIME_TOKENS_SECRET_ARN"] and ours["PYDANTIC_DISABLE_PLUGINS"]
    assert settings(ROOT).items() <= ours.items()


def test_the_functions_of_another_tree_start_in_the_same_rounds(monkeypatch, tmp_path):
    here, there = Scratch(tmp_path / "here"), Scratch(tmp_path / "there", tmp_path)

    def measured(entrants, rounds):
        took = {here: 50.0, there: 100.0}
        return {one.name: [starts.Start(took[scratch], 1, 1, 1)] * rounds for scratch, one in entrants}

    monkeypatch.setattr(starts, "measure", measured)
    alone = cold_part(Run(here, None, 2, 0, 0, 0, 0))
    both = cold_part(Run(here, there, 2, 0, 0, 0, 0))

    assert alone.keys() < both.keys()
    assert medians(ratios(both, PAIRS))["execute_cold_vs_beside"] == 0.5
    assert not [name for name in ratios(alone, PAIRS) if "beside" in name]
