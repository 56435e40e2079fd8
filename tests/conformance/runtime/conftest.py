"""The runtime door that a case asks: a gateway of real processes, or the door at the URL of the run."""

from urllib.parse import quote

import pytest

from tests.support.runtime.verification import Verifier
from tests.support.served import url_run
from tests.support.served.runtime import Runs, ServedRuntime, ServedVerifier, UncountedRuns

TOKENS = "runtime=s3cret/+,other=another-secret"


@pytest.fixture(scope="session")
def served():
    """The door at the URL, where there is one."""
    if not url_run.url():
        yield None
        return
    with url_run.client() as http:
        yield ServedRuntime(url_run.url(), http)


@pytest.fixture(scope="module")
def runtime(request, served):
    return served or request.getfixturevalue("gateway")()


@pytest.fixture(scope="module")
def guarded(request, served):
    """A door that asks for a credential, which its client does not have by itself."""
    return served or request.getfixturevalue("gateway")(PIECEWORK_RUNTIME_TOKENS=TOKENS)


@pytest.fixture(scope="module")
def known():
    """Name and secret of a credential of the guarded door."""
    return url_run.given("TOKEN").split("=", 1) if url_run.url() else ("runtime", "s3cret/+")


@pytest.fixture(scope="module")
def verifier(served):
    return ServedVerifier(served.http) if served else Verifier()


@pytest.fixture
def counted(request, runtime, served):
    """Requests whose runs are counted, where they can be."""
    return UncountedRuns(request.node) if served else Runs(runtime)


@pytest.fixture(scope="module")
def with_credential(guarded, known):
    """The guarded door's base URL with the credential in it, as an operator gives it to a kernel."""
    name, secret = (quote(part, safe="") for part in known)
    return guarded.url.replace("://", f"://{name}:{secret}@")
