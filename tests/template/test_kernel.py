"""The kernel door as it is deployed: alone or not at all, every route, queue, role and alarm."""

import json
from contextlib import nullcontext

import pytest

from local.deploy import check_rules
from local.parameters import Refused
from piecework.kernel.settings import KernelSettings
from tests.support.roles import routes_of, statements

FUNCTIONS = ["Kernel", "KernelStreams", "KernelDue", "KernelHosted", "KernelNotices", "KernelWebhooks"]
STREAMS = ["/v0/agents/stream", "/v0/runners/stream", "/v0/executions/{execution_id}/stream"]
QUEUES = ["KernelDue", "KernelHosted", "KernelNotices", "KernelWebhooks"]
TELL = {"KernelNotices", "KernelWebhooks"}  # they read no arguments and decide nothing
CONFIGURED = {"DeployKernelDoor": "true"}
CODES = {
    "VALIDATION_ERROR",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "NOT_FOUND",
    "CONFLICT",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
    "SERVICE_UNAVAILABLE",
}


@pytest.fixture
def kernel(load_template):
    return load_template(**CONFIGURED)


@pytest.fixture
def functions(kernel):
    return {name: kernel.of_type("AWS::Serverless::Function")[f"{name}Function"] for name in FUNCTIONS}


@pytest.fixture
def events(kernel):
    return routes_of(kernel, "KernelApi")


def test_without_the_parameter_nothing_of_the_kernel_is_deployed(conditional, names_in, load_template):
    its = conditional("KernelDoor")

    assert {f"{name}Function" for name in FUNCTIONS} < its
    assert not names_in(load_template(DeployKernelDoor="false")) & its


def test_the_kernel_is_deployable_alone(load_template):
    alone = load_template(**CONFIGURED, DeployRuntimeDoor="false")

    assert list(alone.of_type("AWS::Serverless::Api")) == ["KernelApi"]
    assert set(alone.of_type("AWS::Serverless::Function")) == {f"{name}Function" for name in FUNCTIONS}
    assert {"KernelTable", "DueTable"} <= set(alone.of_type("AWS::DynamoDB::Table"))
    assert "ApiAccount" in alone.of_type("AWS::ApiGateway::Account")


def test_streams_have_routes_of_their_own_and_everything_else_goes_to_the_kernel(events):
    streams = {path for (path, method), (name, _) in events.items() if name == "KernelStreamsFunction"}
    others = {(path, method) for (path, method), (name, _) in events.items() if name == "KernelFunction"}

    assert streams == set(STREAMS)
    assert others == {(path, "any") for path in (*STREAMS, "/", "/{proxy+}")}


def test_streams_are_written_as_they_come(events, functions):
    for path in STREAMS:
        _, route = events[path, "get"]
        assert route["ResponseTransferMode"] == "RESPONSE_STREAM"  # `STREAM` would be ignored without a word
        assert route["TimeoutInMillis"] == functions["KernelStreams"]["Timeout"] * 1000
    assert functions["KernelStreams"]["Environment"]["Variables"]["AWS_LWA_INVOKE_MODE"] == "response_stream"
    assert functions["KernelStreams"]["Layers"][-1].endswith(":layer:LambdaAdapterLayerArm64:27")


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_is_taken_by_one_function_and_loses_nothing(kernel, functions, queue):
    queues, function = kernel.of_type("AWS::SQS::Queue"), functions[queue]
    [event] = [each["Properties"] for each in function["Events"].values() if each["Type"] == "SQS"]
    dead = kernel.resolve({"Fn::GetAtt": [f"{queue}DeadLetters", "Arn"]})

    assert event["Queue"] == kernel.resolve({"Fn::GetAtt": [f"{queue}Queue", "Arn"]})
    assert event["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert queues[f"{queue}Queue"]["RedrivePolicy"]["deadLetterTargetArn"] == dead
    assert queues[f"{queue}Queue"]["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queues[f"{queue}DeadLetters"]["MessageRetentionPeriod"] == 14 * 86_400
    alarm = kernel.of_type("AWS::CloudWatch::Alarm")[f"{queue}DeadLettersAlarm"]
    assert alarm["Dimensions"][0]["Value"] == kernel.physical_name(f"{queue}DeadLetters")


def test_due_times_are_swept_each_minute(functions):
    assert functions["KernelDue"]["Events"]["Sweep"]["Properties"]["Schedule"] == "rate(1 minute)"


def test_functions_answer_before_the_edge_gives_up(functions):
    assert functions["Kernel"]["Timeout"] == 28


@pytest.mark.parametrize("name", FUNCTIONS)
def test_due_times_of_other_doors_are_out_of_reach(kernel, name):
    writing = [
        entry
        for entry in statements(kernel, name)
        if "DueTable" in str(entry["Resource"]) and "dynamodb:PutItem" in entry["Action"]
    ]

    for entry in writing:
        keys = entry["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        assert all(key.startswith("kernel") for key in keys)
        assert entry["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_files_of_other_doors_are_out_of_reach(kernel, name):
    objects = [
        resource
        for entry in statements(kernel, name)
        if any(action.startswith("s3:") for action in entry["Action"])
        for resource in [str(entry["Resource"])]
    ]

    assert bool(objects) == (name not in TELL)
    assert all(resource.endswith("/kernel/*") for resource in objects)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_granted_on_everything(kernel, name):
    assert not [entry for entry in statements(kernel, name) if entry["Resource"] == "*"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_described_logged_watched_and_released_through_its_alias(kernel, functions, name):
    function, alarms = functions[name], kernel.of_type("AWS::CloudWatch::Alarm")

    assert function["Description"]
    assert function["LoggingConfig"] == {"LogGroup": f"{name}LogGroup"}
    assert function["AutoPublishAliasAllProperties"] is True
    assert function["DeploymentPreference"]["Alarms"] == [f"{name}ErrorsAlarm"]
    for metric in ("Errors", "Throttles"):
        assert alarms[f"{name}{metric}Alarm"]["Dimensions"] == [{"Name": "FunctionName", "Value": f"{name}Function"}]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_zero_means_unreserved(load_template, functions, name):
    reserved = load_template(**CONFIGURED, **{f"{name}ReservedConcurrency": "7"}).of_type("AWS::Serverless::Function")

    assert reserved[f"{name}Function"]["ReservedConcurrentExecutions"] == "7"
    assert "ReservedConcurrentExecutions" not in functions[name]


def test_bodies_of_the_edge_have_the_shape_of_the_door(kernel):
    responses = kernel.of_type("AWS::Serverless::Api")["KernelApi"]["GatewayResponses"]

    for name, response in responses.items():
        body = json.loads(response["ResponseTemplates"]["application/json"])
        assert list(body) == ["error", "code", "details"], name
        assert body["code"] in CODES, name
        assert body["details"] is None, name


def test_throttled_clients_are_told_to_come_back(kernel):
    throttled = kernel.of_type("AWS::Serverless::Api")["KernelApi"]["GatewayResponses"]["THROTTLED"]

    assert throttled["StatusCode"] == 429
    assert throttled["ResponseParameters"]["Headers"]["Retry-After"] == "'5'"


def test_the_access_log_holds_no_path_body_or_query(kernel):
    log_format = kernel.of_type("AWS::Serverless::Api")["KernelApi"]["AccessLogSetting"]["Format"]

    assert "$context.resourcePath" in log_format
    assert "$context.path" not in log_format


def test_the_defaults_of_the_template_are_the_defaults_of_the_code_but_for_the_rotation(functions):
    for name in set(FUNCTIONS) - TELL:
        variables = functions[name]["Environment"]["Variables"]

        assert KernelSettings.from_env(variables) == KernelSettings.from_env({"PIECEWORK_KERNEL_ROTATION": "45s"})


WEBHOOKS = "arn:aws:secretsmanager:us-east-1:000000000000:secret:webhooks-AbCdEf"


def test_the_sender_of_webhooks_reaches_its_queue_its_items_and_its_list_alone(load_template):
    template = load_template(**CONFIGURED, KernelWebhooksSecretArn=WEBHOOKS)
    found = {entry["Sid"]: entry for entry in statements(template, "KernelWebhooks")}

    assert set(found) == {"WriteLogs", "TakeWebhookMessages", "SendWebhookMessages", "KeepDeliveries", "ReadReceivers"}
    assert found["KeepDeliveries"]["Action"] == ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
    assert found["KeepDeliveries"]["Condition"] == DELIVERIES
    assert found["ReadReceivers"]["Resource"] == WEBHOOKS


def test_who_announces_webhooks_adds_deliveries_and_changes_no_other_row(load_template):
    writing = [
        entry
        for entry in statements(load_template(**CONFIGURED, KernelWebhooksSecretArn=WEBHOOKS), "KernelNotices")
        if {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"} & set(entry["Action"])
    ]

    assert [(entry["Action"], entry["Condition"]) for entry in writing] == [(["dynamodb:PutItem"], DELIVERIES)]


DELIVERIES = {
    "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["WEBHOOK#*"]},
    "Null": {"dynamodb:LeadingKeys": "false"},  # else a request without keys would pass
}


@pytest.mark.parametrize(
    ("given", "hands_over", "announces"),
    [
        ({}, False, False),
        ({"ApprovalsTopicArn": "arn:aws:sns:us-east-1:000000000000:a"}, True, False),
        ({"KernelWebhooksSecretArn": WEBHOOKS}, True, True),
    ],
)
def test_notices_go_where_the_stack_has_somebody_to_tell(load_template, given, hands_over, announces):
    functions = load_template(**CONFIGURED, **given).of_type("AWS::Serverless::Function")
    due, notices, webhooks = (functions[f"Kernel{name}Function"] for name in ("Due", "Notices", "Webhooks"))

    assert bool(due["Environment"]["Variables"]["PIECEWORK_KERNEL_NOTICES_QUEUE_URL"]) == hands_over
    assert bool(notices["Environment"]["Variables"]["PIECEWORK_KERNEL_WEBHOOKS_QUEUE_URL"]) == announces
    assert notices["Events"]["Message"]["Properties"]["Enabled"] == hands_over
    assert webhooks["Events"]["Message"]["Properties"]["Enabled"] == announces


def test_the_secret_of_webhooks_is_known_to_who_sends_them(load_template):
    functions = load_template(**CONFIGURED, KernelWebhooksSecretArn=WEBHOOKS).of_type("AWS::Serverless::Function")

    assert {name for name, body in functions.items() if WEBHOOKS in str(body)} == {"KernelWebhooksFunction"}


def test_webhooks_that_are_given_up_ring(kernel, root):
    alarm = kernel.of_type("AWS::CloudWatch::Alarm")["KernelWebhookGiveUpsAlarm"]
    name = kernel.of_type("AWS::Serverless::Function")["KernelWebhooksFunction"]["Environment"]["Variables"]

    assert alarm["Dimensions"] == [{"Name": "service", "Value": name["POWERTOOLS_SERVICE_NAME"]}]
    assert f'"{alarm["MetricName"]}": 1' in (root / "layers/piecework/piecework/webhooks/trying.py").read_text("utf-8")


def test_tokens_are_known_to_those_who_check_them(functions):
    told = {name for name in FUNCTIONS if "PIECEWORK_KERNEL_TOKENS_SECRET_ARN" in str(functions[name]["Environment"])}

    assert told == {"Kernel", "KernelStreams"}


def test_roles_are_told_to_those_who_check_tokens(functions):
    told = {name for name in FUNCTIONS if "PIECEWORK_KERNEL_TOKEN_ROLES" in str(functions[name]["Environment"])}

    assert told == {"Kernel", "KernelStreams"}


@pytest.mark.parametrize(("tokens", "is_taken"), [("arn:aws:secretsmanager:eu-west-1:1:secret:a", True), ("", False)])
def test_roles_need_tokens(raw_template, tokens, is_taken):
    given = {"DeployKernelDoor": "true", "OpenKernel": "true", "KernelTokenRoles": "ada=viewer"}

    with nullcontext() if is_taken else pytest.raises(Refused, match="KernelTokenRoles are roles of the names in"):
        check_rules(raw_template, {**given, "KernelTokensSecretArn": tokens, "OpenRuntime": "true"})


def test_an_open_door_must_be_said_on_purpose(raw_template):
    (assertion,) = raw_template["Rules"]["KernelTokensUnlessOpen"]["Assertions"]

    assert assertion["Assert"]["Fn::Or"][1] == {"Fn::Equals": [{"Ref": "OpenKernel"}, "true"]}


def test_lists_are_read_from_indexes_that_hold_what_a_list_shows(kernel):
    indexes = kernel.of_type("AWS::DynamoDB::Table")["KernelTable"]["GlobalSecondaryIndexes"]
    shown = {"status", "agent_id", "labels", "updated_at"}

    assert {index["IndexName"] for index in indexes} == {"ByAge", "ByAgent", "ByStatus"}
    for index in indexes:
        assert index["KeySchema"][1] == {"AttributeName": "created_id", "KeyType": "RANGE"}
        keys = {key["AttributeName"] for key in index["KeySchema"]}
        assert shown <= keys | set(index["Projection"]["NonKeyAttributes"])


def test_the_table_survives_the_stack(raw_template, kernel):
    assert raw_template["Resources"]["KernelTable"]["DeletionPolicy"] == "RetainExceptOnCreate"
    recovery = kernel.of_type("AWS::DynamoDB::Table")["KernelTable"]["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}
