"""template.yaml read as a deployment would."""

import pytest

from local.gateway.lambdas.variables import ROOT
from local.gateway.routes import Matcher, api_of
from local.loops import TemplateError
from local.template import Template, read

TEMPLATE = Template.load(ROOT / "template.yaml")


def a_template(value: object, **more: object) -> Template:
    raw = {"Resources": {"Thing": {"Type": "Test", "Properties": {"value": value}}}, **more}
    return Template(raw, ROOT)


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ({"Ref": "AWS::Region"}, "us-east-1"),
        ({"Fn::Sub": "${AWS::StackName}-x"}, "piecework-x"),
        ({"Fn::Join": ["-", ["a", {"Ref": "AWS::AccountId"}]]}, "a-000000000000"),
        ({"Fn::Select": ["1", {"Fn::Split": [":", "a:b"]}]}, "b"),
        ({"Fn::GetAtt": ["Thing", "Other"]}, "Thing.Other"),
        ({"Fn::GetAtt": "Thing.Arn"}, "arn:aws:local:us-east-1:000000000000:Thing"),
        ({"Ref": "Thing.Alias"}, "Thing"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        ({"Fn::Or": [{"Fn::Equals": ["a", "b"]}, {"Fn::Not": [{"Fn::Equals": ["a", "b"]}]}]}, True),
    ],
)
def test_intrinsics_are_resolved(node, value):
    assert a_template(node).of_type("Test")["Thing"]["value"] == value


def test_an_unknown_reference_is_an_error():
    with pytest.raises(TemplateError, match="Nothing"):
        a_template({"Ref": "Nothing"}).of_type("Test")


@pytest.mark.parametrize(
    "node",
    [
        {"Fn::ImportValue": "x"},
        {"Fn::Length": ["a"]},
        {"Fn::GetAZs": ""},
        {"Fn::Sub": "x", "b": 1},
        {"Fn::ForEach::X": []},
    ],
)
def test_an_intrinsic_that_nobody_resolves_here_is_an_error(node):
    with pytest.raises(TemplateError, match="Fn::"):
        a_template(node).of_type("Test")


def test_loops_are_written_out_as_the_template_is_read():
    assert {"HireLogGroup", "TaskQueue", "KernelHostedDeadLetters"} <= set(read(ROOT / "template.yaml")["Resources"])
    assert TEMPLATE.of_type("AWS::Logs::LogGroup").keys() >= {"ExecuteLogGroup", "AuthorizerLogGroup"}


def test_an_override_of_an_unknown_parameter_is_an_error():
    with pytest.raises(TemplateError, match="Unknown"):
        Template.load(ROOT / "template.yaml", {"Unknown": "1"})


def test_the_bundles_names_are_the_local_ones():
    assert TEMPLATE.physical_name("ResultsTable") == "piecework-results"
    execute = api_of(TEMPLATE, "RuntimeApi").functions["ExecuteFunction"]
    assert execute.environment["PIECEWORK_TABLE"] == "piecework-results"
    assert execute.environment["PIECEWORK_BUCKET"] == "piecework-local"
    assert execute.folder == ROOT / "functions"


def test_a_parameter_moves_the_edges_time_out_of_execute_and_what_its_function_knows_of_it():
    template = Template.load(ROOT / "template.yaml", {"ExecuteTimeoutMs": "150000"})
    api = api_of(template, "RuntimeApi")

    route, _ = Matcher(api.routes).match("POST", "/execute")

    assert route.timeout_ms == 150_000
    assert api.functions["ExecuteFunction"].environment["PIECEWORK_EXECUTE_TIMEOUT_MS"] == "150000"
    assert api.functions["ExecuteFunction"].timeout_seconds == 300


def test_a_door_that_is_not_deployed_is_not_there():
    template = Template.load(ROOT / "template.yaml", {"DeployRuntimeDoor": "false"})

    with pytest.raises(LookupError, match="RuntimeApi"):
        api_of(template, "RuntimeApi")


@pytest.mark.parametrize(
    ("method", "path", "function", "guarded"),
    [
        ("POST", "/execute", "ExecuteFunction", True),
        ("POST", "/verify", "VerifyFunction", True),
        ("POST", "/agent-events", "AgentEventsFunction", True),
        ("GET", "/capabilities", "CapabilitiesFunction", True),
        ("GET", "/health", "CapabilitiesFunction", True),
        ("GET", "/artifacts/d/t", "ArtifactsFunction", False),
        ("GET", "/execute", "CapabilitiesFunction", True),
        ("DELETE", "/any/where", "CapabilitiesFunction", True),
        ("GET", "/", "CapabilitiesFunction", True),
    ],
)
def test_every_path_has_a_route(method, path, function, guarded):
    route, _ = Matcher(api_of(TEMPLATE, "RuntimeApi").routes).match(method, path)

    assert route.function == function
    assert (route.authorizer is not None) is guarded
