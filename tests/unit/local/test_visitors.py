"""Which requests a local door without tokens serves: those of this machine, and not those of strangers' web pages."""

import pytest

from local.gateway.events import Call
from local.gateway.lambdas.variables import ROOT
from local.gateway.routes import api_of
from local.template import Template

TEMPLATE = Template.load(
    ROOT / "template.yaml", {"DeployWorkerDoor": "true", "DeployKernelDoor": "true", "DeployConsole": "true"}
)
DOORS = ("RuntimeApi", "WorkerApi", "KernelApi", "ConsoleApi")
TOKENS = {"PIECEWORK_RUNTIME_TOKENS": "a=b", "PIECEWORK_KERNEL_TOKENS": "a=b", "PIECEWORK_OPS_TOKENS": "a=b"}


def problem(door, headers, method="POST", **caller):
    from local.gateway.visitors import Visitors

    pairs = tuple({"host": "127.0.0.1:8787", **headers}.items())
    call = Call(method, "/execute", "", pairs, b"", "127.0.0.1", "r", "t")
    return Visitors(api_of(TEMPLATE, door), caller).problem(call)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.example"},
        {"host": "127.0.0.1.attacker.example:8787"},
        {"host": "localhost.attacker.example"},
        {"host": "10.0.0.7:8787"},
        {"host": ""},
        {"host": "[half"},
        {"origin": "https://attacker.example"},
        {"origin": "null"},
        {"origin": "http://localhost.attacker.example"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_what_a_strangers_page_can_send_is_refused(door, headers):
    assert problem(door, headers).startswith("without tokens ")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost"},
        {"host": "LOCALHOST:8787"},
        {"host": "[::1]:8787"},
        {"host": "127.8.8.8"},
        {"host": "app.localhost:8787"},
        {"origin": "http://localhost:3000", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:8790"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
        {"content-type": "text/plain"},
    ],
)
def test_what_programs_and_pages_of_this_machine_send_is_served(door, headers):
    assert problem(door, headers) == ""


@pytest.mark.parametrize("door", ["RuntimeApi", "KernelApi"])
def test_a_door_with_tokens_leaves_it_to_them(door):
    assert problem(door, {"host": "a.example", "origin": "https://a.example"}, **TOKENS) == ""


def test_a_tunnels_host_is_served_when_the_caller_has_named_it():
    caller = {"PUBLIC_BASE_URL": "https://tunnel.example/hire"}

    assert problem("WorkerApi", {"host": "tunnel.example"}, **caller) == ""
    assert problem("WorkerApi", {"host": "other.example"}, **caller) != ""


def test_a_page_may_read_the_public_worker_door_and_do_more_where_its_origin_is_named():
    page = {"origin": "https://seeker.example", "sec-fetch-site": "cross-site"}

    assert problem("WorkerApi", page, method="GET") == problem("WorkerApi", page, method="OPTIONS") == ""
    assert problem("KernelApi", page, method="GET") != ""
    assert problem("WorkerApi", page) != ""
    assert problem("WorkerApi", page, PIECEWORK_PARAM_WorkerCorsOrigin="https://seeker.example") == ""
    assert problem("WorkerApi", page, PIECEWORK_PARAM_WorkerCorsOrigin="*") != ""
