"""How people sign in at the operator's door as it is deployed: a pool of its own or another issuer, and no circle."""

import json
import re
from graphlib import TopologicalSorter

import pytest

from local.deploy import check_rules
from local.parameters import Refused, check_values
from local.template import ACCOUNT, REGION
from piecework.ops.console.policy import called
from piecework.ops.people.claims import parse_group_roles
from piecework.ops.people.configured import CLIENT, CLIENT_PARAMETER, GROUPS, ISSUER, sign_in
from tests.support.roles import statements
from tests.template.test_console import CONFIGURED

FUNCTIONS = [
    "OpsReading",
    "OpsWriting",
    "OpsKernelReading",
    "OpsKernelWriting",
    "OpsKernelStreams",
]  # that check credentials
BOTH = {"DeployConsole": "true", "DeployKernelDoor": "true"}
OIDC = {
    "ConsoleSignIn": "oidc",
    "ConsoleIssuer": "https://login.example/realms/ops",
    "ConsoleClientId": "console",
    "ConsoleGroupRoles": "ops=operator",
}
COGNITO = ("UserPool", "UserPoolDomain", "UserPoolClient", "UserPoolGroup")


@pytest.fixture
def pool(load_template):
    return load_template(**BOTH)


def variables(template, name):
    return template.of_type("AWS::Serverless::Function")[f"{name}Function"]["Environment"]["Variables"]


def cognito(template):
    return [template.of_type(f"AWS::Cognito::{kind}") for kind in COGNITO]


def test_by_default_people_sign_in_at_a_pool_of_the_stacks_own(pool):
    [users], [domain], [client], groups = (found.values() for found in cognito(pool))

    assert users["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert (users["MfaConfiguration"], users["EnabledMfas"]) == ("ON", ["SOFTWARE_TOKEN_MFA"])
    assert users["Policies"]["PasswordPolicy"]["MinimumLength"] >= 12
    assert re.fullmatch(r"console-[a-z0-9-]{1,55}", domain["Domain"])
    assert {group["GroupName"] for group in groups} == set(parse_group_roles(variables(pool, "OpsReading")[GROUPS]))
    assert client["GenerateSecret"] is False


def test_every_function_that_knows_the_doors_tokens_knows_its_people(pool):
    knows = {
        name
        for name, body in pool.of_type("AWS::Serverless::Function").items()
        if "PIECEWORK_OPS_TOKENS_SECRET_ARN" in body.get("Environment", {}).get("Variables", {})
    }

    assert knows == {f"{name}Function" for name in FUNCTIONS}
    for name in knows:
        assert any("ConsoleLayer" in layer for layer in pool.of_type("AWS::Serverless::Function")[name]["Layers"])


def test_the_pools_client_gives_codes_alone_and_to_the_console_alone(pool, load_template):
    [client] = pool.of_type("AWS::Cognito::UserPoolClient").values()
    here = f"https://ConsoleApi.execute-api.{REGION}.amazonaws.com/prod/console"

    assert (client["AllowedOAuthFlows"], client["AllowedOAuthScopes"]) == (["code"], ["openid"])
    assert client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]
    assert (client["CallbackURLs"], client["LogoutURLs"]) == ([f"{here}/signed-in"], [f"{here}/signed-out"])
    assert client["AccessTokenValidity"] <= 60 and client["TokenValidityUnits"]["AccessToken"] == "minutes"
    named = load_template(**BOTH, ConsolePublicUrl="https://ops.example.com")
    [client] = named.of_type("AWS::Cognito::UserPoolClient").values()
    assert client["CallbackURLs"] == [f"{here}/signed-in", "https://ops.example.com/console/signed-in"]


@pytest.mark.parametrize("given", [OIDC, {"ConsoleSignIn": "tokens", **CONFIGURED}, {"DeployConsole": "false"}])
def test_a_stack_with_another_way_has_no_pool(load_template, given):
    template = load_template(**{**BOTH, **given})

    assert cognito(template) == [{}] * 4
    assert template.of_type("AWS::SSM::Parameter") == {}
    if "OpsReadingRole" in template.of_type("AWS::IAM::Role"):
        assert not [
            name for name in FUNCTIONS for entry in statements(template, name) if "ssm:GetParameter" in entry["Action"]
        ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_can_read_the_clients_id_and_no_other_parameter(pool, name):
    [parameter] = pool.of_type("AWS::SSM::Parameter").values()
    [entry] = [one for one in statements(pool, name) if any(action.startswith("ssm:") for action in one["Action"])]

    assert (entry["Action"], entry["Resource"]) == (
        ["ssm:GetParameter"],
        f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{parameter['Name']}",
    )
    assert variables(pool, name)[CLIENT_PARAMETER] == parameter["Name"]
    assert parameter["Value"] == "ConsoleUserPoolClient"


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("given", "issuer", "is_cognito"),
    [({}, "https://cognito-idp.us-east-1.amazonaws.com/ConsoleUserPool", True), (OIDC, OIDC["ConsoleIssuer"], False)],
)
def test_a_function_can_read_its_sign_in(load_template, name, given, issuer, is_cognito):
    found = variables(load_template(**BOTH, **given), name)
    made = sign_in(found, lambda stored: "console", lambda *_, **__: None)

    assert found[ISSUER] == made.issuer.url == issuer
    assert made.expected()[:2] == (issuer, "console") and made.expected().is_cognito is is_cognito


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({}, "https://console-local.auth.us-east-1.amazoncognito.com"),
        (OIDC, "https://login.example"),
        ({**OIDC, "ConsoleConnectOrigin": "https://tokens.example"}, "https://tokens.example"),
        ({**CONFIGURED, "ConsoleSignIn": "tokens"}, None),
    ],
)
def test_pages_may_call_the_token_endpoints_origin_and_no_other(load_template, given, origin):
    template = load_template(**{**BOTH, **given})

    assert called(variables(template, "OpsFiles")) == ([origin] if origin else [])
    for found in template.of_type("AWS::Cognito::UserPoolDomain").values():
        assert origin == f"https://{found['Domain']}.auth.us-east-1.amazoncognito.com"


def test_with_tokens_alone_there_is_no_issuer_and_no_layer_for_one(load_template):
    template = load_template(**{**BOTH, **CONFIGURED}, ConsoleSignIn="tokens")

    assert {variables(template, name)[ISSUER] + variables(template, name)[CLIENT] for name in FUNCTIONS} == {""}
    assert "ConsoleLayer" not in template.of_type("AWS::Serverless::LayerVersion")


@pytest.mark.parametrize(
    "given", [{"ConsoleSignIn": "oidc"}, {**OIDC, "ConsoleClientId": ""}, {**OIDC, "ConsoleIssuer": ""}]
)
def test_another_issuer_needs_its_address_and_a_client(raw_template, given):
    with pytest.raises(Refused, match="needs ConsoleIssuer and ConsoleClientId"):
        check_rules(raw_template, {"DeployRuntimeDoor": "false", "DeployConsole": "true", **given})
    check_rules(raw_template, {"DeployRuntimeDoor": "false", "DeployConsole": "true", **OIDC})


def test_groups_of_another_issuer_get_no_roles_by_their_names_alone(raw_template):
    """A company's group `operators` is not the stack's."""
    unsaid = {name: value for name, value in OIDC.items() if name != "ConsoleGroupRoles"}

    with pytest.raises(Refused, match="ConsoleGroupRoles with the groups of that issuer"):
        check_rules(raw_template, {"DeployRuntimeDoor": "false", "DeployConsole": "true", **unsaid})


@pytest.mark.parametrize("way", ["cognito", "tokens"])
def test_an_issuer_that_would_not_count_is_refused(raw_template, way):
    with pytest.raises(Refused, match="count only with"):
        check_rules(
            raw_template,
            {"DeployRuntimeDoor": "false", "DeployConsole": "true", **CONFIGURED, **OIDC, "ConsoleSignIn": way},
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ConsoleGroupRoles", ""),
        ("ConsoleGroupRoles", "ops=king"),
        ("ConsoleGroupRoles", "ops=agent"),
        ("ConsoleGroupRoles", "o ps=viewer"),
        ("ConsoleIssuer", "http://login.example"),
        ("ConsoleIssuer", "https://login.example?a=b"),
        ("ConsoleConnectOrigin", "https://login.example/token"),
        ("ConsoleConnectOrigin", "https://login.example; script-src *"),
        ("ConsolePublicUrl", "https://ops.example.com/"),
        ("ConsoleSignIn", "none"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_the_deployment(raw_template, name, value):
    with pytest.raises(Refused, match=name):
        check_values(raw_template, {name: value})


def test_nothing_refers_to_itself_through_others(transformed):
    """CloudFormation refuses a circle: the API's address, the client's callback, the functions that the API calls."""
    resources = transformed["Resources"]
    assert "ConsoleApi" in named_in(resources["ConsoleUserPoolClient"], resources)
    assert named_in(resources["ConsoleApi"], resources) >= {"OpsReadingFunctionAliaslive"}

    assert list(TopologicalSorter({name: named_in(body, resources) for name, body in resources.items()}).static_order())


def named_in(node, resources):
    """The resources that a body refers to, in whatever way."""
    text = json.dumps(node)
    refs = re.findall(r'"(?:Ref|DependsOn)": "(\w+)"', text) + re.findall(r'"Fn::GetAtt": \["(\w+)"', text)
    listed = re.findall(r'"DependsOn": \[([^\]]*)\]', text)
    named = [name for found in listed for name in re.findall(r"\w+", found)]
    return {*refs, *named, *re.findall(r"\$\{(\w+)[.}]", text)} & resources.keys()
