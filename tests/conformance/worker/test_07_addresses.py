"""Where the worker door says it is: its own domain where it has one, else what API Gateway says about the request."""

import contextlib
import json
import os
from unittest import mock
from uuid import uuid4

import pytest

from local.facilitator.server import StubFacilitator
from piecework.clock import now_in_ms
from tests.support.worker.contracts import a_contract
from tests.support.worker.handlers import PUBLIC_BASE_URL, handler

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


EDGE = {"apiId": "a1b2c3d4e5", "stage": "prod", "domainName": "evil.example"}
OWN = "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod"


@pytest.fixture(scope="module")
def facilitator():
    with StubFacilitator() as stub:
        yield stub


@pytest.fixture(scope="module")
def variables(embedded_aws, facilitator):
    return {
        **embedded_aws.variables,
        "AWS_REGION": "eu-west-1",
        "PIECEWORK_URL_SUFFIX": "amazonaws.com",
        "PIECEWORK_DEFAULT_EXECUTOR": "echo",
        "PIECEWORK_CONTRACTS_TABLE": embedded_aws.new_table("ContractsTable"),
        "PIECEWORK_WORK_TABLE": embedded_aws.new_table("WorkTable"),
        "PIECEWORK_DUE_TABLE": embedded_aws.new_table("DueTable"),
        "PIECEWORK_BUCKET": embedded_aws.new_bucket(),
        "PIECEWORK_TASK_QUEUE_URL": f"{embedded_aws.endpoint}/000000000000/piecework-task",
        "PIECEWORK_DUE_QUEUE_URL": f"{embedded_aws.endpoint}/000000000000/piecework-due",
        "PIECEWORK_WEBHOOK_QUEUE_URL": f"{embedded_aws.endpoint}/000000000000/piecework-webhook",
        "FACILITATOR_URL": facilitator.url,
        "BASE_RPC_URL": facilitator.rpc_url,
    }


@contextlib.contextmanager
def a_door(variables, **settings):
    with (
        mock.patch.dict(os.environ, variables),
        handler("worker.contracts.app", variables, **settings) as contracts,
        handler("worker.hire.app", variables, **settings) as hire,
    ):
        yield contracts, hire


def told(contracts, hire):
    """Every address that seekers get before they pay, after a request that names a foreign host."""
    document = a_contract(now_in_ms())
    lied = {"Host": ["evil.example"], "X-Forwarded-Host": ["evil.example"]}
    made = contracts("POST", "/contracts", {"contract": document}, context=EDGE, headers=lied)
    assert made.status == 201, made.text
    paid = {**lied, "X-Contract-ID": [document["contract_id"]]}
    asked = hire("POST", "/execute", {"brief": uuid4().hex}, context=EDGE, headers=paid)
    assert asked.status == 402, asked.text
    return {
        "execute_url": made.json()["execute_url"],
        "endpoint": contracts("GET", "/manifest", context=EDGE, headers=lied).json()["endpoint"],
        "asked": json.dumps(asked.json()),
    }


def test_a_door_without_a_domain_is_where_api_gateway_says_it_is(variables):
    with a_door(variables, PUBLIC_BASE_URL="") as (contracts, hire):
        addresses = told(contracts, hire)

    assert addresses["execute_url"] == f"{OWN}/execute"
    assert addresses["endpoint"] == {"url": OWN, "protocol": "https"}
    assert f"{OWN}/execute" in addresses["asked"]
    assert "evil.example" not in json.dumps(addresses)


def test_a_domain_of_its_own_goes_before_what_api_gateway_says(variables):
    with a_door(variables) as (contracts, hire):
        addresses = told(contracts, hire)

    assert addresses["execute_url"] == f"{PUBLIC_BASE_URL}/execute"
    assert addresses["endpoint"]["url"] == PUBLIC_BASE_URL
    assert "execute-api" not in json.dumps(addresses)
