"""The kernel door that a case asks: over stores in memory (in `make test-all` over DynamoDB too), or at the URL."""

import pytest

from tests.support.kernel import stage as kernel_stage
from tests.support.kernel.desk import Desk
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables
from tests.support.served import url_run
from tests.support.served.kernel import ServedDesk

STORES = ["served"] if url_run.url() else ["memory", pytest.param("dynamodb", marks=pytest.mark.slow)]
TOKENS = (("ops", "secret-token"),)


@pytest.fixture(params=STORES)
def stored(request, monkeypatch):
    """Where what a test's kernels keep is stored."""
    if request.param == "dynamodb":
        aws = request.getfixturevalue("embedded_aws")
        monkeypatch.setattr(kernel_stage, "new_store", lambda clock, settings: new_tables(aws, clock, settings))
    return request.param


@pytest.fixture
def desk():
    if not url_run.url():
        yield Desk()
        return
    with url_run.client() as http:
        served = ServedDesk(http)
        yield served
        served.close()


@pytest.fixture
def stage():
    """Agents, runners and monitors at the door's streams."""
    if not url_run.url():
        yield KernelStage()
        return
    with url_run.client() as http:
        served = ServedDesk(http)
        yield served.stage
        served.close()


@pytest.fixture
def door(request):
    """A client of the streams over HTTP."""
    if not url_run.url():
        settings = {"PIECEWORK_PARAM_DeployKernelDoor": "true", "PIECEWORK_POLICY_DEFAULT": "permissive"}
        yield request.getfixturevalue("gateway")(api="KernelApi", **settings).http
        return
    with url_run.client() as http:
        yield http


@pytest.fixture
def guarded():
    """A client without a credential of a door that asks for one."""
    if not url_run.url():
        yield Desk(tokens=TOKENS).client
        return
    with url_run.client() as http:
        http.headers.pop("authorization")
        yield http


@pytest.fixture
def secret():
    """The secret of a credential of the guarded door."""
    return url_run.given("TOKEN").partition("=")[2] if url_run.url() else TOKENS[0][1]
