"""What the edge itself answers: the door's own shape, statuses that tell the kernel the truth."""

import json
import re

import pytest

from piecework.runtime.door import STATUS

KERNEL_KEEPS = 512  # characters of an error body that the kernel stores
FINAL_FOR_THE_KERNEL = "forced offline by policy"
ONLY_AT_THE_EDGE = {"forbidden": 403, "internal": 500}
EXPECTED = {
    "ACCESS_DENIED": 401,
    "AUTHORIZER_CONFIGURATION_ERROR": 503,
    "AUTHORIZER_FAILURE": 503,
    "INTEGRATION_FAILURE": 502,
    "INTEGRATION_TIMEOUT": 504,
    "MISSING_AUTHENTICATION_TOKEN": 404,
    "REQUEST_TOO_LARGE": 413,
    "RESOURCE_NOT_FOUND": 404,
    "THROTTLED": 503,
    "UNAUTHORIZED": 401,
}


CANNOT_HAPPEN = {  # and say DEFAULT_4XX or DEFAULT_5XX if they did
    "API_CONFIGURATION_ERROR": "proxy integrations of functions have nothing that could be set up wrongly in the edge",
    "BAD_REQUEST_BODY": "no request validator",
    "BAD_REQUEST_PARAMETERS": "no request validator",
    "INVALID_API_KEY": "no API keys",
    "QUOTA_EXCEEDED": "no usage plans",
    "UNSUPPORTED_MEDIA_TYPE": "proxy integrations of functions take every content type",
    "WAF_FILTERED": "no web ACL",
}


@pytest.fixture
def responses(template):
    return template.of_type("AWS::Serverless::Api")["RuntimeApi"]["GatewayResponses"]


def test_statuses_are_those_that_the_kernel_understands(responses):
    statuses = {name: response.get("StatusCode") for name, response in responses.items()}

    assert EXPECTED.items() <= statuses.items()
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(statuses)
    assert not {408, 429} & set(statuses.values())


def test_bodies_have_the_shape_of_the_door(responses):
    for name, response in responses.items():
        [(content_type, text)] = response["ResponseTemplates"].items()
        body = json.loads(text)

        assert content_type == "application/json", name
        assert list(body) == ["error", "code"], name
        assert body["code"] in STATUS or body["code"] in ONLY_AT_THE_EDGE, name
        assert body["error"], name
        assert len(text) <= KERNEL_KEEPS, name
        assert FINAL_FOR_THE_KERNEL not in text.lower(), name


def test_every_401_asks_for_basic_credentials(responses):
    for name, response in responses.items():
        headers = response.get("ResponseParameters", {}).get("Headers", {})
        if response.get("StatusCode") == 401:
            assert headers["WWW-Authenticate"].strip("'").startswith("Basic realm="), name
        else:
            assert "WWW-Authenticate" not in headers, name


def test_a_page_in_a_browser_may_read_that_its_credential_is_refused(responses):
    headers = responses["ACCESS_DENIED"]["ResponseParameters"]["Headers"]

    assert headers["Access-Control-Allow-Origin"] == "'*'"
    assert headers["Access-Control-Expose-Headers"] == "'WWW-Authenticate'"


def test_what_cannot_happen_has_no_response_of_its_own(transformed, deployed):
    kinds = {body["Type"] for body in transformed["Resources"].values()}
    apis = deployed().of_type("AWS::ApiGateway::RestApi").values()
    methods = [method for api in apis for path in api["Body"]["paths"].values() for method in path.values()]

    assert len(apis) == 4 and len(methods) > 30
    for api in apis:
        assert not CANNOT_HAPPEN.keys() & api["Body"]["x-amazon-apigateway-gateway-responses"].keys()
        assert "x-amazon-apigateway-request-validators" not in api["Body"] and "ApiKeySourceType" not in api
    for method in methods:
        assert method["x-amazon-apigateway-integration"]["type"] == "aws_proxy"
        assert "x-amazon-apigateway-request-validator" not in method
        assert all("api_key" not in scheme for scheme in method.get("security", ()))
    assert not [kind for kind in kinds if re.search("UsagePlan|ApiKey|RequestValidator|WAF", kind)]
