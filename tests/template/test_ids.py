"""Logical ids are what CloudFormation knows a deployed thing by: each that goes or comes has its reason in ids.yaml."""

import re

import pytest
import yaml

HASHED = re.compile(r"(Version|Deployment)[0-9a-f]{10}")  # SAM makes a new one whenever what it stands for changes
KEPT = {  # a new id would lose data, a URL, a log, or the right that something has
    "AWS::DynamoDB::Table",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::SecretsManager::Secret",
    "AWS::Lambda::Function",
    "AWS::Lambda::Alias",
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
    "AWS::IAM::Role",
    "AWS::Logs::LogGroup",
}


@pytest.fixture(scope="session")
def history(request):
    return yaml.safe_load((request.config.rootpath / "tests/template/ids.yaml").read_text("utf-8"))


@pytest.fixture
def before(history):
    return {logical: kind for kind, ids in history["before"].items() for logical in ids}


def of(changes):
    return {logical for change in changes for logical in change["ids"]}


def test_every_id_that_went_or_came_has_its_reason(transformed, before, history):
    now = {HASHED.sub(r"\1", logical): body["Type"] for logical, body in transformed["Resources"].items()}

    assert set(before) - set(now) == of(history["went"])
    assert set(now) - set(before) == of(history["came"])
    assert all(len(change["why"]) > 20 for change in (*history["went"], *history["came"]))


def test_what_kept_its_id_kept_its_type(transformed, before):
    now = {HASHED.sub(r"\1", logical): body["Type"] for logical, body in transformed["Resources"].items()}

    assert {logical: kind for logical, kind in now.items() if before.get(logical, kind) != kind} == {}


def test_what_holds_data_urls_logs_or_rights_keeps_its_id_for_good(before, history):
    assert {logical for logical in of(history["went"]) if before[logical] in KEPT} == set()
    assert set(before.values()) >= KEPT
