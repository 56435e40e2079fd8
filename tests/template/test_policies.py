"""What each function may do, to the last action."""

import pytest

from tests.support.roles import statements
from tests.support.runtime.deployed import EXECUTOR_POLICY, EXECUTOR_SECRET, GRANTS, HOOK_POLICY, TOKENS, TRACES


def granted(template, name):
    found = {(action, entry["Resource"]) for entry in statements(template, name) for action in entry["Action"]}
    log_group = template.resolve({"Fn::GetAtt": f"{name}LogGroup.Arn"})
    logs = {("logs:CreateLogStream", log_group), ("logs:PutLogEvents", log_group)}
    assert logs <= found
    return found - logs


@pytest.fixture
def full(load_template):
    return load_template(
        RuntimeTokensSecretArn=TOKENS,
        ExecutorSecretArn=EXECUTOR_SECRET,
        ExecutorPolicyArn=EXECUTOR_POLICY,
        HookPolicyArn=HOOK_POLICY,
    )


@pytest.mark.parametrize("name", GRANTS)
def test_a_function_may_do_exactly_what_it_needs(full, name):
    assert granted(full, name) == GRANTS[name]


def test_only_executors_and_hooks_get_a_policy_from_outside(full, template):
    attached = {name: role.get("ManagedPolicyArns") for name, role in full.of_type("AWS::IAM::Role").items()}
    attached.pop("ApiLogsRole")
    by_default = {name for name, role in template.of_type("AWS::IAM::Role").items() if "ManagedPolicyArns" in role}

    assert {name: arns for name, arns in attached.items() if arns} == {
        "ExecuteRole": [EXECUTOR_POLICY],
        "AgentEventsRole": [HOOK_POLICY],
    }
    assert by_default == {"ApiLogsRole"}


def test_secrets_that_are_not_given_are_not_readable(template):
    actions = {action for name in GRANTS for action, _ in granted(template, name)}

    assert "secretsmanager:GetSecretValue" not in actions


def test_every_statement_says_why_and_every_function_has_a_role_of_its_own(full):
    sids = {name: [entry.get("Sid") for entry in statements(full, name)] for name in GRANTS}
    roles = {name: body["Role"] for name, body in full.of_type("AWS::Serverless::Function").items()}

    assert all(all(names) and len(set(names)) == len(names) for names in sids.values())
    assert roles == {f"{name}Function": full.resolve({"Fn::GetAtt": f"{name}Role.Arn"}) for name in GRANTS}


def test_nothing_but_traces_is_granted_on_everything(full):
    wide = {action for name in GRANTS for action, resource in granted(full, name) if resource == "*"}

    assert wide == {action for action, _ in TRACES}
