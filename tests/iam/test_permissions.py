"""The calls each function makes and the role it has agree, both ways."""

import json
import os
import subprocess
from collections import Counter

import pytest

from local.gateway.lambdas.variables import ROOT
from local.template import REGION, Template
from tests.support.aws_calls import recorded
from tests.support.roles import (
    EVERY_PERMISSION,
    EXCEPTIONS,
    FUNCTION,
    ROLE,
    WORKER,
    _raw,
    as_deployed,
    grants_of,
    refused,
    statements_of,
    template_with,
    unused,
)

SAM_PYTHON = ROOT / ".venv-sam" / "bin" / "python"
TRANSFORM = """
import json, sys
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
given = json.load(sys.stdin)
resources = given["template"]["Resources"].values()
for place in (given["template"]["Globals"]["Function"], *(body.get("Properties", {}) for body in resources)):
    place.update((key, "s3://bucket/code") for key in ("CodeUri", "ContentUri") if key in place)
print(json.dumps(Translator({}, Parser()).translate(given["template"], given["parameters"])))
"""


@pytest.fixture(scope="module")
def calls(driven):
    """Every call of the runtime door's functions in the run so far, the driven gateway's among them."""
    ours = template_with().of_type(FUNCTION)
    return Counter({call: times for call, times in recorded().items() if call.function in ours})


@pytest.fixture(scope="module")
def transformed():
    """template.yaml after the SAM transform, with a canary so that everything SAM may add is there."""
    declared = {name: body.get("Default", "") for name, body in _raw()["Parameters"].items()}
    given = {
        "template": _raw(),
        "parameters": {**declared, **EVERY_PERMISSION, **WORKER, "Canary": "Canary10Percent5Minutes"},
    }
    ended = subprocess.run(
        [str(SAM_PYTHON), "-c", TRANSFORM],
        input=json.dumps(given),
        env={**os.environ, "AWS_DEFAULT_REGION": REGION},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_no_function_makes_a_call_that_would_be_refused(calls):
    assert calls
    assert refused(calls, template_with()) == []


def test_no_function_has_a_permission_that_nothing_uses(calls):
    assert unused(calls, template_with()) == []


def test_any_permission_that_is_taken_away_is_missed(calls):
    template = template_with()
    needed = sorted(grant for grant in grants_of(template) if grant.action not in EXCEPTIONS)

    for grant in needed:

        def without(raw, grant=grant):
            statements = statements_of(raw, grant.function)
            [statement] = [entry for entry in statements if entry["Sid"] == grant.sid]
            statement["Action"].remove(grant.action)

        missed = refused(calls, template_with(without))
        assert {(call.function, call.action) for call in missed} == {(grant.function, grant.action)}, grant
    assert needed


@pytest.mark.parametrize("function", sorted(template_with().of_type(FUNCTION)))
@pytest.mark.parametrize("action", ["dynamodb:DeleteItem", "dynamodb:*", "s3:ListBucket", "xray:GetSampling"])
def test_any_permission_that_is_added_is_found(calls, function, action):
    def extra(raw):
        resource = {"Fn::GetAtt": ["Bucket", "Arn"]}
        entry = {"Sid": "Extra", "Effect": "Allow", "Action": [action], "Resource": resource}
        statements_of(raw, function).append(entry)

    found = unused(calls, template_with(extra))

    assert [(grant.function, grant.action) for grant in found] == [(function, action)]


def test_traces_are_allowed_only_to_functions_that_are_traced(calls):
    def untraced(raw):
        del raw["Resources"]["ExecuteFunction"]["Properties"]["Tracing"]

    found = unused(calls, template_with(untraced))

    assert [(grant.function, grant.sid) for grant in found] == [("ExecuteFunction", "SendTraces")] * 2


def test_a_policy_for_another_name_than_the_function_was_told_is_found(calls):
    def elsewhere(raw):
        raw["Resources"]["VerifyFunction"]["Properties"]["Environment"]["Variables"]["PIECEWORK_BUCKET"] = "another"

    assert {call.function for call in refused(calls, template_with(elsewhere))} == {"VerifyFunction"}


def test_every_exception_is_one_and_has_its_reason(calls):
    template = template_with(worker=True)
    seen = {as_deployed(call, template).action for call in calls}

    assert set(EXCEPTIONS) <= {grant.action for grant in grants_of(template)}
    assert not seen & set(EXCEPTIONS)
    assert all(EXCEPTIONS.values())


def test_the_transform_gives_functions_no_other_permission(transformed):
    after = Template(transformed, ROOT, EVERY_PERMISSION | WORKER | {"Canary": "Canary10Percent5Minutes"})

    assert grants_of(after, "AWS::Lambda::Function") == grants_of(template_with(worker=True))


def test_the_transform_adds_one_role_which_deploys_canaries(transformed):
    before, after = _raw()["Resources"], transformed["Resources"]
    added = {name: body for name, body in after.items() if name not in before and "::IAM::" in body["Type"]}

    assert {name: body["Type"] for name, body in added.items()} == {"CodeDeployServiceRole": ROLE}
    trusted = added["CodeDeployServiceRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
    assert trusted == {"Service": ["codedeploy.amazonaws.com"]}
