"""The function that runs hosted agents and its role agree, both ways."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from local.aws import stop
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import ROOT
from tests.support.aws_calls import recorded
from tests.support.machine import wait_until
from tests.support.roles import EXCEPTIONS, KERNEL, grants_of, refused, statements_of, template_with, unused

pytestmark = pytest.mark.slow  # starts a door and an agent's process of its own

FUNCTION = "KernelHostedFunction"
OWN = Path(__file__).parent / "hosted"
POLICY = b"default: {decision: allow}\n"


@pytest.fixture(scope="module")
def calls(own_gateway):
    """Every call of the function after all of it was used."""
    executors = own_gateway.aws.client("secretsmanager").create_secret(
        Name="iam-hosted-executors", SecretString='{"PERMITTED_KEY":"value"}'
    )["ARN"]
    s3 = own_gateway.aws.client("s3")
    s3.create_bucket(Bucket=KERNEL["KernelPolicyBucket"])
    s3.put_object(Bucket=KERNEL["KernelPolicyBucket"], Key=KERNEL["KernelPolicyKey"], Body=POLICY)
    running = own_gateway(
        api="KernelApi",
        PIECEWORK_EXECUTORS_PATH=str(OWN),
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_ExecutorSecretArn=executors,
        **{f"PIECEWORK_PARAM_{name}": KERNEL[name] for name in ("KernelPolicyBucket", "KernelPolicyKey")},
    )
    command = dying_with_parent("exec", sys.executable, "-m", "local.demo_kernel", "--url", running.url)
    runner = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, start_new_session=True)
    try:
        drive(running)
    finally:
        stop(runner)
        running.close()
    return Counter({call: times for call, times in recorded().items() if call.function == FUNCTION})


def drive(kernel) -> None:
    """An execution that is tried twice, suspended, and completed with large values."""
    created = kernel.http.post("/v0/executions", json={"agent_id": "clerk", "input": "y" * 400_000})
    assert created.status_code == 201, created.text
    path = f"/v0/executions/{created.json()['id']}"
    wait_until(lambda: kernel.http.get(path).json()["status"] == "completed", seconds=180)


def test_the_function_makes_no_call_that_would_be_refused(calls):
    assert calls
    assert refused(calls, template_with(kernel=True)) == []


def test_the_function_has_no_permission_that_nothing_uses(calls):
    assert [grant for grant in unused(calls, template_with(kernel=True)) if grant.function == FUNCTION] == []


def test_any_permission_that_is_taken_away_is_missed(calls):
    grants = [grant for grant in grants_of(template_with(kernel=True)) if grant.function == FUNCTION]
    needed = [grant for grant in sorted(grants) if grant.action not in EXCEPTIONS]

    for grant in needed:

        def without(raw, grant=grant):
            [statement] = [entry for entry in statements_of(raw, FUNCTION) if entry["Sid"] == grant.sid]
            statement["Action"].remove(grant.action)

        missed = refused(calls, template_with(without, kernel=True))
        assert {(call.function, call.action) for call in missed} == {(FUNCTION, grant.action)}, grant
    assert needed
