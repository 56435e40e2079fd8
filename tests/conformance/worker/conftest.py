"""The worker door that a case asks: real parts over stores in memory with a stub facilitator, or the one at the URL."""

import pytest

from tests.support.served import url_run
from tests.support.served.worker import ServedStage, ServedStub
from tests.support.worker.stage import Stage, stub_facilitator


@pytest.fixture
def stub():
    """The facilitator that the door pays through; None in a run over a URL that names none."""
    if not url_run.url():
        with stub_facilitator() as running:
            yield running
    elif url := url_run.given("FACILITATOR"):
        served = ServedStub(url)
        yield served
        served.close()
    else:
        yield None


@pytest.fixture
def stage(request, stub):
    if not url_run.url():
        yield Stage(stub)
        return
    with url_run.client() as http:
        yield ServedStage(http, stub, request.node)
