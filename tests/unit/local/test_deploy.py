"""Names of tables and of the bucket stay what they are once something is kept under them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from botocore.exceptions import ClientError


class Account:
    """CloudFormation with one stack, of which some resources are deployed."""

    def __init__(self, parameters, resources, template=None, status="UPDATE_COMPLETE"):
        self._parameters = parameters
        self._resources = resources
        self._template = template or {"Resources": {}}
        self._status = status

    def get_template(self, *, StackName, TemplateStage):
        return {"TemplateBody": self._template}

    def describe_stack_resource(self, *, StackName, LogicalResourceId):  # AWS's names
        if LogicalResourceId not in self._resources:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "no such resource"}}, "x")
        return {
            "StackResourceDetail": {
                "PhysicalResourceId": self._resources[LogicalResourceId],
                "ResourceStatus": self._status,
            }
        }

    def describe_stacks(self, *, StackName):
        return {"Stacks": [{"StackStatus": self._status, "Parameters": []}]}


def refusal(given, parameters, resources, **account):
    from local.deploy import check_names
    from local.parameters import Refused

    try:
        check_names(Account(parameters, resources, **account), "s", given, parameters)
    except Refused as error:
        return str(error)
    return ""


WORK = {"WorkTable": "s-WorkTable-1ABC"}


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        ({"WorkTableName": "other"}, {"WorkTableName": ""}),
        ({"WorkTableName": "other"}, {}),  # a stack from before the parameter
        ({"WorkTableName": "other"}, {"WorkTableName": "first"}),
        ({"WorkTableName": ""}, {"WorkTableName": "first"}),
        ({"WorkTableName": "s-WorkTable-1ABC"}, {"WorkTableName": ""}),  # its own name, but no longer a generated one
    ],
)
def test_a_changed_name_is_refused_because_cloudformation_would_make_an_empty_table(given, standing):
    assert "WorkTable is s-WorkTable-1ABC" in refusal(given, standing, WORK)


@pytest.mark.parametrize(
    ("given", "standing", "resources"),
    [
        ({}, {"WorkTableName": "first"}, WORK),
        ({"WorkTableName": "first"}, {"WorkTableName": "first"}, WORK),
        ({"WorkTableName": ""}, {}, WORK),
        ({"WorkTableName": "other"}, {"WorkTableName": ""}, {}),  # its door was never deployed
    ],
)
def test_a_name_that_renames_nothing_is_taken(given, standing, resources):
    assert refusal(given, standing, resources) == ""


IMPORTED = {"Resources": {"WorkTable": {"Properties": {"TableName": "restored"}}}}


def test_a_table_that_was_imported_under_its_name_may_be_named_by_the_parameter():
    assert refusal({"WorkTableName": "restored"}, {}, {"WorkTable": "restored"}, template=IMPORTED) == ""
    assert refusal({"WorkTableName": "other"}, {}, {"WorkTable": "restored"}, template=IMPORTED)


def test_a_table_that_its_door_left_behind_holds_up_no_name():
    assert refusal({"WorkTableName": "restored"}, {}, WORK, status="DELETE_SKIPPED") == ""


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"])
def test_what_a_failed_creation_left_is_told_before_sam_is_asked(status):
    from local.deploy import parameters_of
    from local.parameters import Refused

    with pytest.raises(Refused, match="delete-stack --stack-name s"):
        parameters_of(Account({}, {}, status=status), "s")


def test_a_first_stack_whose_change_set_never_ran_is_still_a_first_stack():
    from local.deploy import parameters_of

    assert parameters_of(Account({}, {}, status="REVIEW_IN_PROGRESS"), "s") is None


def test_every_value_reaches_sam_as_it_was_given_an_empty_one_too(monkeypatch):
    from local import deploy

    given = {"DefaultExecutor": "", "Name": "two words", "Quoted": 'a"b', "Plain": "echo", "Arn": "arn:aws:sns:x:1:y"}
    monkeypatch.setattr("sys.argv", ["x", "--stack", "s"])
    words = deploy.command(deploy._arguments(), given, is_new=True)
    overrides = words[words.index("--parameter-overrides") + 1 :]
    read = (
        "import json, sys; from samcli.cli.types import CfnParameterOverridesType as T;"
        "print(json.dumps(T().convert(tuple(sys.argv[1:]), None, None)))"
    )
    python = Path(deploy.SAM).with_name("python")
    done = subprocess.run([python, "-c", read, *overrides], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == given


def test_the_region_may_be_said_by_the_name_that_the_page_on_operations_gives(monkeypatch):
    from local import deploy

    seen = []
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("sys.argv", ["x", "--stack", "s", "Odd"])
    monkeypatch.setattr(deploy, "pairs", lambda words: seen.append(os.environ["AWS_DEFAULT_REGION"]) or {"No": ""})

    assert deploy.main() == 1
    assert seen == ["eu-central-1"]


def test_a_machine_without_a_region_is_told_which_setting_is_missing(monkeypatch, capsys, tmp_path):
    from local import deploy

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "absent"))
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    monkeypatch.setattr("sys.argv", ["x", "--stack", "s", "OpenRuntime=true"])

    assert deploy.main() == 1
    assert "set AWS_REGION" in capsys.readouterr().err


def test_the_stack_policy_lets_no_update_replace_what_holds_data():
    from local.deploy import STACK_POLICY

    allow, deny = json.loads(json.dumps(STACK_POLICY))["Statement"]

    assert (allow["Action"], allow["Resource"]) == ("Update:*", "*")
    assert (deny["Effect"], deny["Action"]) == ("Deny", "Update:Replace")
    assert {name.partition("/")[2] for name in deny["Resource"]} == {
        "ResultsTable",
        "ContractsTable",
        "WorkTable",
        "DueTable",
        "KernelTable",
        "Bucket",
    }


class Policies:
    """A stack's policy."""

    def __init__(self, body=None):
        self.body = body

    def get_stack_policy(self, *, StackName):
        return {"StackPolicyBody": self.body} if self.body else {}

    def set_stack_policy(self, *, StackName, StackPolicyBody):
        self.body = StackPolicyBody


def test_a_stack_policy_of_the_operators_own_is_left_as_it_is():
    from local.deploy import STACK_POLICY, protect

    own, first = Policies('{"Statement": []}'), Policies()

    assert (protect(own, "s"), protect(first, "s")) == (0, 0)
    assert own.body == '{"Statement": []}'
    assert json.loads(first.body) == STACK_POLICY


def test_a_first_stack_is_made_without_a_question_and_a_later_change_is_shown(monkeypatch):
    from local import deploy

    monkeypatch.setattr("sys.argv", ["x", "--stack", "s", "--sam=--no-rollback --debug", "A=1", "B=2"])
    arguments = deploy._arguments()

    first = deploy.command(arguments, {"A": "1", "B": "2"}, is_new=True)
    later = deploy.command(arguments, {}, is_new=False)

    assert first[1:] == [
        *("deploy", "--stack-name", "s", "--no-confirm-changeset", "--no-rollback", "--debug"),
        *("--parameter-overrides", 'A="1"', 'B="2"'),
    ]
    assert later[1:] == ["deploy", "--stack-name", "s", "--no-rollback", "--debug"]


def told(words):
    from local.deploy import check_rules, pairs
    from local.gateway.lambdas.variables import ROOT
    from local.parameters import Refused, check_values
    from local.template import read

    raw = read(ROOT / "template.yaml")
    try:
        given = pairs(words)
        check_values(raw, given)
        check_rules(raw, given)
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["RuntimeTokensSecretArn"], "must be Name=Value"),
        (["RuntimeTokenSecretArn=arn:x"], "did you mean RuntimeTokensSecretArn?"),
        (["RuntimeTokensSecretArn=name=secret"], "RuntimeTokensSecretArn must match"),
        (["OpenRuntime=yes"], "OpenRuntime must be one of true, false"),
        (["ThrottlingRate=fast"], "ThrottlingRate must be a number"),
        (["ExecuteReservedConcurrency=-1"], "ExecuteReservedConcurrency must be 0 at least"),
        (["TaskReservedConcurrency=1001"], "TaskReservedConcurrency must be 1000 at most"),  # of a queue's mapping
        ([], "Give RuntimeTokensSecretArn, or say OpenRuntime=true to let anybody in"),
        (["OpenRuntime=true", "DeployWorkerDoor=true"], "WorkerAgentId, WorkerWallets and FacilitatorUrl"),
    ],
)
def test_values_that_cannot_be_right_are_refused_in_a_sentence_before_aws_is_asked(words, sentence):
    assert sentence in told(words)


def test_what_a_first_stack_needs_is_taken():
    assert told(["OpenRuntime=true"]) == ""
