"""Policy files in S3, read on the embedded AWS."""

import pytest

from piecework.errors import SettingsError
from piecework.kernel.policy.sources import PolicySettings, policy_from
from piecework.kernel.store.policy_bucket import PolicyBucket
from tests.support.kernel.policies import a_call

FILE = b"rules: [{id: own, then: {decision: allow}}]"


@pytest.fixture(scope="module")
def bucket(embedded_aws):
    name, s3 = embedded_aws.new_bucket(), embedded_aws.client("s3")
    for key, body in {
        "one/policy.yaml": FILE,
        "many/support.yaml": FILE,
        "many/_global.yml": b"default: {decision: deny, reason: everyone}",
        "many/README.md": b"notes",
        "many/": b"",
        "many/deeper/x.yaml": b"not read",
        "none/empty.yaml": b"",
        "large/policy.yaml": b"#" * 300_000,
    }.items():
        s3.put_object(Bucket=name, Key=key, Body=body)
    return name


@pytest.fixture
def policy(embedded_aws, bucket):
    objects = PolicyBucket(lambda: embedded_aws.client("s3"))
    return lambda key: policy_from(PolicySettings(s3=f"s3://{bucket}/{key}"), objects)


def test_an_object_is_a_policy(policy):
    assert policy("one/policy.yaml").decide(a_call()).rule_id == "own"


def test_a_folder_holds_a_policy_per_agent(policy):
    for key in ("many", "many/"):
        assert policy(key).decide(a_call()).rule_id == "own"
        assert policy(key).decide(a_call(agent_id="x")).reason == "everyone"


@pytest.mark.parametrize("key", ["one/other.yaml", "nowhere/", "none/empty.yaml", "large/policy.yaml"])
def test_a_place_without_a_policy_stops_the_start(policy, key):
    with pytest.raises(SettingsError):
        policy(key)


def test_a_bucket_that_is_not_there_stops_the_start(embedded_aws):
    objects = PolicyBucket(lambda: embedded_aws.client("s3"))

    for key in ("a.yaml", "a/"):
        with pytest.raises(SettingsError):
            policy_from(PolicySettings(s3=f"s3://no-such-bucket-here/{key}"), objects)
