"""A run of every function through everything that needs AWS."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from piecework.runtime.door import ROUTES
from tests.support.machine import EXECUTORS, Aws, Gateways, RunningGateway
from tests.support.runtime.agent_events import an_event
from tests.support.runtime.requests import a_nonce_request, a_scripted_request, an_execute_request, execute
from tests.support.runtime.verification import a_candidate, a_verify_body

SECRET = "correct-horse-battery-staple-0123456789"
OWN = Path(__file__).parent / "executors"
LARGE = {"answer": "x" * 20_000}  # over what an item keeps


@pytest.fixture(scope="session")
def driven(gateway: Gateways, embedded_aws: Aws) -> RunningGateway:
    """A gateway with tokens and an executors' secret in Secrets Manager, after all of it was used."""
    secrets = embedded_aws.client("secretsmanager")
    tokens = secrets.create_secret(Name="iam-tokens", SecretString=f"kernel={SECRET}")["ARN"]
    executors = secrets.create_secret(Name="iam-executors", SecretString='{"PERMITTED_KEY":"value"}')["ARN"]
    runtime = gateway(
        fresh=True,
        PIECEWORK_EXECUTORS_PATH=os.pathsep.join(map(str, (EXECUTORS, OWN))),
        PIECEWORK_PARAM_RuntimeTokensSecretArn=tokens,
        PIECEWORK_PARAM_ExecutorSecretArn=executors,
    )
    assert runtime.http.get("/health").status_code == 401
    runtime.http.headers["authorization"] = f"Bearer {SECRET}"
    drive(runtime)
    return runtime


def drive(runtime: RunningGateway) -> None:
    """Call every route so that each function uses each of its permissions."""
    for path in (path for path, methods in ROUTES.items() if "GET" in methods and "{" not in path):
        assert runtime.http.get(path).status_code == 200
    fail_and_replay_a_step(runtime)
    wait_for_another(runtime)
    overflow(runtime)
    keep_serve_and_verify_evidence(runtime)


def fail_and_replay_a_step(runtime: RunningGateway) -> None:
    """The executor and the hook fail after a recorded step; their second run finds it, the third call is replayed."""
    request, event = an_execute_request("permitted", schema={}), an_event()
    statuses = [execute(runtime, request).status_code for _ in range(3)]
    heard = [runtime.http.post("/agent-events", json=event).status_code for _ in range(3)]
    assert (statuses, heard) == ([503, 200, 200], [503, 200, 200])


def wait_for_another(runtime: RunningGateway) -> None:
    """Two resends wait for the run that is under way."""
    request = a_nonce_request(0.5)
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: execute(runtime, request), range(3)))
    assert len({answer.text for answer in answers}) == 1


def overflow(runtime: RunningGateway) -> None:
    """A large result is written to the bucket, and read from there when it is replayed."""
    request = a_scripted_request({"output": LARGE})
    assert execute(runtime, request).json() == execute(runtime, request).json()


def keep_serve_and_verify_evidence(runtime: RunningGateway) -> None:
    """An artifact is stored, served, and looked at by the verifier."""
    request = a_scripted_request({"artifacts": [["notes", "found", "text/plain"]]})
    answer = execute(runtime, request).json()
    reference = answer["evidence_refs"][0]
    assert runtime.http.get(reference["uri"]).text == "found"
    candidate = a_candidate(answer["candidate_output"], evidence_refs=[reference])
    verdict = runtime.http.post("/verify", json=a_verify_body(schema={}, candidate=candidate)).json()
    assert verdict["passed"], verdict
