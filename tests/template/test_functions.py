"""What every function, log group and alarm must have."""

import re

import pytest

from piecework.settings import RuntimeSettings
from tests.support.runtime.deployed import GRANTS

EDGE_SECONDS = 29  # API Gateway's integration time-out unless a route says otherwise


@pytest.fixture
def functions(template):
    return template.of_type("AWS::Serverless::Function")


def test_the_functions_are_those_of_the_door(functions):
    assert list(functions) == [f"{name}Function" for name in GRANTS]


@pytest.mark.parametrize("name", GRANTS)
def test_a_function_is_described_logged_and_released_through_its_alias(template, functions, name):
    function = functions[f"{name}Function"]

    assert function["Description"]
    assert function["LoggingConfig"] == {"LogGroup": f"{name}LogGroup"}
    assert function["AutoPublishAliasAllProperties"] is True
    assert function["DeploymentPreference"]["Alarms"] == [f"{name}ErrorsAlarm"]
    assert template.of_type("AWS::Logs::LogGroup")[f"{name}LogGroup"]["RetentionInDays"] == "30"


@pytest.mark.parametrize("name", GRANTS)
@pytest.mark.parametrize("metric", ["Errors", "Throttles"])
def test_a_function_has_an_alarm_for_errors_and_throttles(load_template, name, metric):
    topic = "arn:aws:sns:us-east-1:000000000000:operators"
    alarm = load_template(AlarmTopicArn=topic).of_type("AWS::CloudWatch::Alarm")[f"{name}{metric}Alarm"]

    assert alarm["MetricName"] == metric
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": f"{name}Function"}]
    assert alarm["AlarmActions"] == [topic]


def test_the_alarm_on_the_door_watches_the_name_that_the_api_has(template):
    api = template.of_type("AWS::Serverless::Api")["RuntimeApi"]
    alarm = template.of_type("AWS::CloudWatch::Alarm")["RuntimeApiServerErrorsAlarm"]

    assert alarm["Dimensions"] == [
        {"Name": "ApiName", "Value": api["Name"]},
        {"Name": "Stage", "Value": api["StageName"]},
    ]


def test_functions_share_the_runtime_that_layers_are_built_for(template):
    shared = template.globals["Function"]
    layers = template.of_type("AWS::Serverless::LayerVersion").values()

    assert shared["Runtime"] == "python3.13"
    assert shared["Architectures"] == ["arm64"]
    assert shared["AutoPublishAlias"] == "live"
    assert shared["SnapStart"] == {"ApplyOn": "None"}
    assert all(layer["CompatibleRuntimes"] == ["python3.13"] for layer in layers)
    assert all(layer["CompatibleArchitectures"] == ["arm64"] for layer in layers)


def test_functions_answer_before_the_edge_gives_up(functions):
    later = {name: body["Timeout"] for name, body in functions.items() if body["Timeout"] >= EDGE_SECONDS}

    assert later == {"ExecuteFunction": 300}  # its waiters end before the edge; its runs may outlive their requests


@pytest.mark.parametrize("milliseconds", ["3000", "29000", "150000", "300000"])
def test_one_parameter_says_how_long_a_connection_waits_at_the_edge_and_in_the_function(load_template, milliseconds):
    functions = load_template(ExecuteTimeoutMs=milliseconds).of_type("AWS::Serverless::Function")
    function = functions["ExecuteFunction"]

    assert function["Events"]["Post"]["Properties"]["TimeoutInMillis"] == int(milliseconds)
    assert int(function["Environment"]["Variables"]["PIECEWORK_EXECUTE_TIMEOUT_MS"]) == int(milliseconds)


def test_a_run_may_outlive_any_connection(raw_template, functions):
    longest = max(map(int, raw_template["Parameters"]["ExecuteTimeoutMs"]["AllowedValues"]))

    assert functions["ExecuteFunction"]["Timeout"] * 1000 >= longest


def test_every_allowed_time_out_has_its_number(raw_template):
    table = raw_template["Mappings"]["ExecuteTimeouts"]

    assert list(table) == raw_template["Parameters"]["ExecuteTimeoutMs"]["AllowedValues"]
    assert all(row == {"Milliseconds": int(key)} for key, row in table.items())


@pytest.mark.parametrize("name", GRANTS)
def test_zero_means_unreserved(load_template, template, name):
    reserved = load_template(**{f"{name}ReservedConcurrency": "7"}).of_type("AWS::Serverless::Function")

    assert reserved[f"{name}Function"]["ReservedConcurrentExecutions"] == "7"
    assert "ReservedConcurrentExecutions" not in template.of_type("AWS::Serverless::Function")[f"{name}Function"]


def test_the_defaults_of_the_template_are_the_defaults_of_the_code(functions):
    variables = {}
    for function in functions.values():
        variables |= function["Environment"]["Variables"]

    settings = RuntimeSettings.from_env(variables)

    assert settings == RuntimeSettings.from_env({})


def test_no_parameter_holds_a_secret(raw_template):
    suspicious = re.compile("secret|token|password|key", re.IGNORECASE)
    named = {name: body for name, body in raw_template["Parameters"].items() if suspicious.search(name)}

    expected = {
        "RuntimeTokensSecretArn",
        "ExecutorSecretArn",
        "FacilitatorAuthSecretArn",
        "BaseRpcUrlSecretArn",
        "DeliverablesKmsKeyArn",
        "KernelTokensSecretArn",
        "KernelWebhooksSecretArn",
        "OpsTokensSecretArn",
    }
    assert named.pop("OpsTokenRoles")["Default"] == ""  # names and roles, no secrets
    assert named.pop("KernelPolicyKey")["Default"] == "policy.yaml"  # the name of an object
    assert not re.fullmatch(named.pop("KernelTokenRoles")["AllowedPattern"], "ada=s3cret")  # names and roles
    assert set(named) == expected
    assert all(body["Default"] == "" for body in named.values())
    assert all("arn:" in body["AllowedPattern"] for body in named.values())


def test_every_parameter_is_described_and_grouped(raw_template):
    groups = raw_template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    grouped = [name for group in groups for name in group["Parameters"]]

    assert sorted(grouped) == sorted(raw_template["Parameters"])
    assert all(list(group["Label"]) == ["default"] and group["Label"]["default"] for group in groups)
    assert all(body["Description"] for body in raw_template["Parameters"].values())


def test_the_build_has_a_target_for_every_function_and_layer(root, template, build_command):
    layers = (root / "layers/Makefile").read_text("utf-8")

    for name, body in template.of_type("AWS::Serverless::Function").items():
        folder = "/".join(re.split("[./]", body["Handler"])[:2])
        assert f" local.build function {folder} " in build_command(name)
    for name in template.of_type("AWS::Serverless::LayerVersion"):
        assert f"build-{name}:" in layers
