"""Jobs longer than a kernel's connection, in real time: it drops at 30 s, sends the same bytes again, five times."""

import time

import httpx
import pytest

from tests.support.runtime.requests import a_nonce_request, execute

CONNECTION_SECONDS = 30
PAUSES = (0.05, 0.1, 0.15, 0.2)
CONNECTIONS = 5


def as_a_kernel(runtime, request):
    """Send as a kernel does; returns the number of the connection that was answered, and its answer."""
    for connection in range(1, CONNECTIONS + 1):
        try:
            answer = httpx.post(f"{runtime.url}/execute", json=request, timeout=CONNECTION_SECONDS, trust_env=False)
        except httpx.TransportError:
            time.sleep(PAUSES[min(connection, len(PAUSES)) - 1])
        else:
            return connection, answer
    pytest.fail("no connection was answered")


@pytest.mark.slow
def test_a_job_longer_than_its_connection_may_wait_is_done_once_and_answers_the_resend(gateway):
    runtime = gateway(fresh=True, PIECEWORK_PARAM_ExecuteTimeoutMs="10000")
    request = a_nonce_request(12)

    first, second = execute(runtime, request), execute(runtime, request)

    runs = runtime.runs(request["execution_id"])
    runtime.close()
    assert (first.status_code, second.status_code, runs) == (504, 200, 1)
    assert second.headers["X-Piecework-Replayed"] == "true"


@pytest.mark.slow
def test_a_job_of_seventy_seconds_is_answered_on_the_third_connection(gateway):
    runtime = gateway(PIECEWORK_PARAM_ExecuteTimeoutMs="150000")
    request = a_nonce_request(70)
    begun = time.monotonic()

    connection, answer = as_a_kernel(runtime, request)

    assert connection == 3
    assert answer.status_code == 200
    assert time.monotonic() - begun >= 70
    assert runtime.runs(request["execution_id"]) == 1
    assert execute(runtime, request).content == answer.content


@pytest.mark.slow
def test_a_runner_killed_in_a_long_job_is_replaced_within_the_kernels_connections(gateway):
    runtime = gateway(fresh=True, PIECEWORK_PARAM_ExecuteTimeoutMs="150000")
    request = a_nonce_request(40)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{runtime.url}/execute", json=request, timeout=CONNECTION_SECONDS, trust_env=False)
    runtime.kill("runtime.execute.app.handler")

    connection, answer = as_a_kernel(runtime, request)

    runs = runtime.runs(request["execution_id"])
    runtime.close()
    assert connection <= CONNECTIONS - 1
    assert answer.status_code == 200
    assert runs == 2
