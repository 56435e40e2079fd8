"""The kernel door's own functions and their roles agree, both ways; the one for hosted agents has a file of its own."""

from collections import Counter
from pathlib import Path

import pytest

from tests.iam.alone import look_late, stop_webhooks
from tests.iam.kernel_driving import POLICY, drive
from tests.support.aws_calls import recorded
from tests.support.machine import wait_until
from tests.support.roles import EXCEPTIONS, KERNEL, grants_of, refused, statements_of, template_with, unused

pytestmark = pytest.mark.slow  # waits for leases, graces and retention

OURS = {f"Kernel{name}Function" for name in ("", "Streams", "Due", "Notices", "Webhooks")}
OWN = Path(__file__).parent / "hosted"
SECRET = "correct-horse-battery-staple"
KEY = "whsec_" + "A" * 32
TOLD = {("KernelNoticesFunction", "sns:Publish"), ("KernelWebhooksFunction", "sqs:SendMessage")}  # the next try
TIMES = {
    "REBUNO_EXECUTION_TIMEOUT": "15s",
    "REBUNO_AGENT_TIMEOUT": "3s",
    "REBUNO_RETENTION_PERIOD": "2s",
    "PIECEWORK_KERNEL_LEASE": "2s",
    "PIECEWORK_KERNEL_HEARTBEAT": "1s",
    "PIECEWORK_SWEEP_SECONDS": "1",
}


@pytest.fixture(scope="module")
def calls(own_gateway):
    """Every call of these functions after all of them was used."""
    tokens = own_gateway.aws.client("secretsmanager").create_secret(
        Name="iam-kernel-tokens", SecretString=f"driver={SECRET}"
    )["ARN"]
    s3 = own_gateway.aws.client("s3")
    s3.create_bucket(Bucket=KERNEL["KernelPolicyBucket"])
    s3.put_object(Bucket=KERNEL["KernelPolicyBucket"], Key=KERNEL["KernelPolicyKey"], Body=POLICY)
    topic = own_gateway.aws.client("sns").create_topic(Name="approvals")["TopicArn"]
    assert topic == KERNEL["ApprovalsTopicArn"]
    listed = f"desk=https://hooks.invalid/approvals {KEY}"  # a name that never resolves
    webhooks = own_gateway.aws.client("secretsmanager").create_secret(Name="iam-webhooks", SecretString=listed)["ARN"]
    running = own_gateway(  # its short times would be the end of other tests' executions
        api="KernelApi",
        PIECEWORK_EXECUTORS_PATH=str(OWN),
        PIECEWORK_PARAM_DeployKernelDoor="true",
        PIECEWORK_PARAM_KernelTokensSecretArn=tokens,
        PIECEWORK_PARAM_KernelWebhooksSecretArn=webhooks,
        **{
            f"PIECEWORK_PARAM_{name}": KERNEL[name]
            for name in ("KernelPolicyBucket", "KernelPolicyKey", "ApprovalsTopicArn")
        },
        **TIMES,
    )
    try:
        drive(running.url, SECRET)
        wait_until(lambda: {(call.function, call.action) for call in recorded()} >= TOLD, seconds=60)
    finally:
        running.close()
    assert stop_webhooks(own_gateway.aws) == "stopped"
    look_late(own_gateway.aws)
    return Counter({call: times for call, times in recorded().items() if call.function in OURS})


def test_no_function_of_the_kernel_makes_a_call_that_would_be_refused(calls):
    assert {call.function for call in calls} == OURS
    assert refused(calls, template_with(kernel=True)) == []


def test_no_function_of_the_kernel_has_a_permission_that_nothing_uses(calls):
    assert ours(unused(calls, template_with(kernel=True))) == []


def test_any_permission_of_the_kernel_that_is_taken_away_is_missed(calls):
    needed = [grant for grant in sorted(ours(grants_of(template_with(kernel=True)))) if grant.action not in EXCEPTIONS]

    for grant in needed:

        def without(raw, grant=grant):
            [statement] = [entry for entry in statements_of(raw, grant.function) if entry["Sid"] == grant.sid]
            statement["Action"].remove(grant.action)

        missed = refused(calls, template_with(without, kernel=True))
        assert {(call.function, call.action) for call in missed} == {(grant.function, grant.action)}, grant
    assert needed


@pytest.mark.parametrize("function", sorted(OURS))
@pytest.mark.parametrize("action", ["dynamodb:Scan", "sqs:PurgeQueue", "s3:ListBucket"])
def test_any_permission_that_is_added_to_the_kernel_is_found(calls, function, action):
    def extra(raw):
        resource = {"Fn::GetAtt": ["Bucket", "Arn"]}
        entry = {"Sid": "Extra", "Effect": "Allow", "Action": [action], "Resource": resource}
        statements_of(raw, function).append(entry)

    found = ours(unused(calls, template_with(extra, kernel=True)))

    assert [(grant.function, grant.action) for grant in found] == [(function, action)]


def ours(grants):
    return [grant for grant in grants if grant.function in OURS]
