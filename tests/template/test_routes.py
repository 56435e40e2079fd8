"""Every route of the runtime door, and who answers what it does not serve."""

import pytest

from piecework.runtime.door import ROUTES
from tests.support.runtime.deployed import SERVED_BY

CATCH_ALL = {"/", "/{proxy+}"}


@pytest.fixture
def routes(template):
    functions = template.of_type("AWS::Serverless::Function")
    return {
        (event["Properties"]["Path"], event["Properties"]["Method"]): (name, event["Properties"])
        for name, body in functions.items()
        for event in body.get("Events", {}).values()
    }


def test_each_route_reaches_its_function(routes):
    named = {route: name for route, (name, _) in routes.items() if route[1] != "any"}

    assert named == SERVED_BY


def test_the_template_and_the_door_know_the_same_routes(routes):
    template_routes = {(path, method.upper()) for path, method in routes if method != "any"}

    assert template_routes == {(path, method) for path, methods in ROUTES.items() for method in methods}


def test_each_route_has_a_partner_that_answers_405(routes):
    partners = {path: name for (path, method), (name, _) in routes.items() if method == "any"}

    assert set(partners) == {path for path, method in routes if method != "any"} | CATCH_ALL
    assert set(partners.values()) == {"CapabilitiesFunction"}


def test_only_artifacts_need_no_credential(routes):
    open_routes = [route for route, (_, event) in routes.items() if event.get("Auth", {}).get("Authorizer") == "NONE"]

    assert open_routes == [("/artifacts/{digest}/{token}", "get")]


def test_the_authorizer_is_asked_every_time(template):
    auth = template.of_type("AWS::Serverless::Api")["RuntimeApi"]["Auth"]
    authorizer = auth["Authorizers"][auth["DefaultAuthorizer"]]

    assert authorizer["FunctionPayloadType"] == "REQUEST"
    assert authorizer["Identity"] == {"ReauthorizeEvery": 0}


def test_the_access_log_holds_no_path_body_or_credential(template):
    log_format = template.of_type("AWS::Serverless::Api")["RuntimeApi"]["AccessLogSetting"]["Format"]

    assert "$context.resourcePath" in log_format
    assert "$context.path" not in log_format
    assert "authorizationHeader" not in log_format.replace("_", "")


def test_bytes_pass_and_the_edge_traces_no_urls(template):
    api = template.of_type("AWS::Serverless::Api")["RuntimeApi"]

    assert api["BinaryMediaTypes"][0] == "*/*"
    assert api["TracingEnabled"] is False
    assert api["EndpointConfiguration"] == {"Type": "REGIONAL"}
    assert [setting["DataTraceEnabled"] for setting in api["MethodSettings"]] == [False]


def test_answers_are_never_compressed_because_the_kernel_cannot_unpack_them(template):
    assert "MinimumCompressionSize" not in template.of_type("AWS::Serverless::Api")["RuntimeApi"]
