"""The worker door as it is deployed: alone or not at all, every route, queue, role and alarm."""

import json
import re

import pytest

from piecework.webhooks.sending import LADDER_SECONDS
from piecework.worker.door import ROUTES
from piecework.worker.errors import CODES
from piecework.worker.payment.counts import LONG_LOOKS, SettlementCounts
from piecework.worker.payment.settlement import NotPaid, Paid, Wait
from piecework.worker.settings import WorkerSettings
from tests.support.roles import routes_of, statements

FUNCTIONS = ["Hire", "Contracts", "Task", "Webhook", "WorkerStreams", "WorkerDue"]
SERVED_BY = {
    ("/execute", "post"): "HireFunction",
    ("/tasks/{task_id}", "get"): "HireFunction",
    ("/stream/{task_id}", "get"): "WorkerStreamsFunction",
    ("/contracts", "post"): "ContractsFunction",
    ("/contracts/{contract_id}", "get"): "ContractsFunction",
    ("/manifest", "get"): "ContractsFunction",
    ("/healthz", "get"): "ContractsFunction",
}
QUEUES = {"Task": "TaskFunction", "Webhook": "WebhookFunction", "Due": "WorkerDueFunction"}
CONFIGURED = {
    "DeployWorkerDoor": "true",
    "WorkerPublicUrl": "https://w.example/hire",
    "WorkerAgentId": "agent_work01",
    "WorkerWallets": "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
    "FacilitatorUrl": "https://facilitator.example",
}


@pytest.fixture
def worker(load_template):
    return load_template(**CONFIGURED)


@pytest.fixture
def functions(worker):
    return {name: worker.of_type("AWS::Serverless::Function")[f"{name}Function"] for name in FUNCTIONS}


@pytest.fixture
def events(worker):
    return routes_of(worker, "WorkerApi")


def test_without_the_parameter_nothing_of_the_worker_is_deployed(conditional, names_in, load_template):
    its = conditional("WorkerDoor")

    assert {f"{name}Function" for name in FUNCTIONS} < its
    assert not names_in(load_template(DeployWorkerDoor="false")) & its


def test_the_worker_is_deployable_alone(load_template):
    alone = load_template(**CONFIGURED, DeployRuntimeDoor="false")

    assert list(alone.of_type("AWS::Serverless::Api")) == ["WorkerApi"]
    assert set(alone.of_type("AWS::Serverless::Function")) == {f"{name}Function" for name in FUNCTIONS}
    assert "ApiAccount" in alone.of_type("AWS::ApiGateway::Account")


def test_each_route_reaches_its_function_and_the_door_knows_it(events):
    named = {route: name for route, (name, _) in events.items() if route[1] != "any"}

    assert named == SERVED_BY
    assert {(path, method.upper()) for path, method in named} == {
        (path, method) for path, methods in ROUTES.items() for method in methods
    }


def test_each_route_has_a_partner_that_answers_405(events):
    partners = {path: name for (path, method), (name, _) in events.items() if method == "any"}

    assert set(partners) == {path for path, _ in SERVED_BY} | {"/", "/{proxy+}"}
    assert set(partners.values()) == {"ContractsFunction"}


def test_streams_are_written_as_they_come(events, functions):
    _, route = events["/stream/{task_id}", "get"]
    variables = functions["WorkerStreams"]["Environment"]["Variables"]

    assert route["ResponseTransferMode"] == "RESPONSE_STREAM"  # `STREAM` would be ignored without a word
    assert route["TimeoutInMillis"] == functions["WorkerStreams"]["Timeout"] * 1000
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"
    assert functions["WorkerStreams"]["Layers"][-1].endswith(":layer:LambdaAdapterLayerArm64:27")


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_is_taken_by_one_function_and_loses_nothing(worker, functions, queue):
    queues, function = worker.of_type("AWS::SQS::Queue"), functions[QUEUES[queue].removesuffix("Function")]
    [event] = [each["Properties"] for each in function["Events"].values() if each["Type"] == "SQS"]
    arn = worker.resolve({"Fn::GetAtt": [f"{queue}Queue", "Arn"]})
    dead = worker.resolve({"Fn::GetAtt": [f"{queue}DeadLetters", "Arn"]})

    assert event["Queue"] == arn
    assert event["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert queues[f"{queue}Queue"]["RedrivePolicy"] == {"deadLetterTargetArn": dead, "maxReceiveCount": 5}
    assert queues[f"{queue}Queue"]["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queues[f"{queue}DeadLetters"]["MessageRetentionPeriod"] == 14 * 86_400
    alarm = worker.of_type("AWS::CloudWatch::Alarm")[f"{queue}DeadLettersAlarm"]
    assert alarm["Dimensions"][0]["Value"] == worker.physical_name(f"{queue}DeadLetters")


def test_a_task_has_the_message_and_the_time_for_itself(functions):
    [event] = functions["Task"]["Events"].values()

    assert event["Properties"]["BatchSize"] == 1
    assert functions["Task"]["Timeout"] == 900


def test_real_money_needs_a_node_that_tells_whether_it_moved(raw_template):
    (assertion,) = raw_template["Rules"]["WorkerSeesTheChain"]["Assertions"]
    assert assertion["Assert"] == {
        "Fn::Or": [
            {"Fn::Equals": [{"Ref": "DeployWorkerDoor"}, "false"]},
            {"Fn::Equals": [{"Ref": "AllowTestnet"}, "true"]},
            {"Fn::Not": [{"Fn::Equals": [{"Ref": "BaseRpcUrlSecretArn"}, ""]}]},
            {"Fn::Not": [{"Fn::Equals": [{"Ref": "BaseRpcUrl"}, ""]}]},
        ]
    }


def test_due_times_are_swept_each_minute(functions):
    assert functions["WorkerDue"]["Events"]["Sweep"]["Properties"]["Schedule"] == "rate(1 minute)"


def test_functions_answer_before_the_edge_gives_up(functions):
    assert {functions[name]["Timeout"] for name in ("Hire", "Contracts")} == {28}


def test_the_sender_of_webhooks_reaches_nothing_but_its_queue_and_its_own_items(worker):
    found = {entry["Sid"]: entry for entry in statements(worker, "Webhook")}
    keys = found["KeepDeliveries"]["Condition"]

    assert set(found) == {"WriteLogs", "TakeWebhookMessages", "SendWebhookMessages", "KeepDeliveries"}
    assert keys["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["WEBHOOK#*"]}
    assert keys["Null"] == {"dynamodb:LeadingKeys": "false"}  # else a request without keys would pass
    assert "dynamodb:Query" not in found["KeepDeliveries"]["Action"]


def test_streams_write_end_marks_and_seats_of_readers_and_nothing_else(worker):
    writing = [entry for entry in statements(worker, "WorkerStreams") if "dynamodb:PutItem" in entry["Action"]]

    [entry] = writing
    assert entry["Condition"]["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["STREAM#*", "READERS#*"]}


@pytest.mark.parametrize(
    ("name", "kinds"), [("Contracts", ["EXEC#*"]), ("WorkerStreams", ["EXEC#*", "STREAM#*", "READERS#*"])]
)
def test_readers_of_work_see_no_webhook_and_its_secret(worker, name, kinds):
    found = {entry["Sid"]: entry for entry in statements(worker, name)}

    assert found["ReadWork"]["Condition"] == {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": kinds},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def test_a_withheld_deliverable_is_out_of_reach_of_the_runtime_door(worker):
    for name in ("Execute", "Verify", "Artifacts", "Contracts", "Webhook", "WorkerDue"):
        resources = [str(entry["Resource"]) for entry in statements(worker, name)]

        assert not [resource for resource in resources if "deliverables" in resource or resource.endswith(":::*")]


KEY = "arn:aws:kms:us-east-1:000000000000:key/11111111-2222-3333-4444-555555555555"


def key_statements(template):
    """Function to the statements of its role that name KMS."""
    by_name = {name: [one for one in statements(template, name) if "kms" in str(one["Action"])] for name in FUNCTIONS}
    return {name: found for name, found in by_name.items() if found}


def test_the_key_of_deliverables_is_used_by_those_who_store_or_link_them_and_only_through_s3(load_template):
    found = key_statements(load_template(**CONFIGURED, DeliverablesKmsKeyArn=KEY))

    assert {name: [one["Action"] for one in granted] for name, granted in found.items()} == {
        "Hire": [["kms:GenerateDataKey", "kms:Decrypt"]],
        "Task": [["kms:GenerateDataKey", "kms:Decrypt"]],
        "WorkerStreams": [["kms:Decrypt"]],
    }
    for (granted,) in found.values():
        assert granted["Resource"] == KEY
        assert granted["Condition"] == {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}


def test_those_who_store_deliverables_are_told_the_key(load_template):
    functions = load_template(**CONFIGURED, DeliverablesKmsKeyArn=KEY).of_type("AWS::Serverless::Function")
    told = {name for name, body in functions.items() if KEY in body["Environment"]["Variables"].values()}

    assert told == {"HireFunction", "TaskFunction"}


def test_without_an_own_key_no_role_names_kms(worker):
    assert key_statements(worker) == {}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_granted_on_everything_but_traces(worker, name):
    wide = {action for entry in statements(worker, name) if entry["Resource"] == "*" for action in entry["Action"]}

    assert wide <= {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_described_logged_watched_and_released_through_its_alias(worker, functions, name):
    function, alarms = functions[name], worker.of_type("AWS::CloudWatch::Alarm")

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


def counted() -> set[str]:
    """Every metric of settlements that is counted."""
    metrics: list[str] = []
    counts = SettlementCounts(metrics.extend)
    for outcome in (Paid("0x", {}), NotPaid("", {})):
        counts.answered(outcome)
    counts.looked(Wait(""), LONG_LOOKS)
    counts.unresolved()
    counts.strange()
    return set(metrics)


def test_every_metric_that_an_alarm_reads_is_written(worker, root):
    written = counted()
    alarms = worker.of_type("AWS::CloudWatch::Alarm").values()
    read = {body["MetricName"] for body in alarms if body.get("Namespace") == "Piecework/piecework"}
    read |= {
        part["MetricStat"]["Metric"]["MetricName"]
        for body in alarms
        for part in body.get("Metrics", ())
        if "MetricStat" in part
    }
    webhook = (root / "layers/piecework/piecework/webhooks/trying.py").read_text("utf-8")

    assert read - written == {"WebhookGivenUp"}
    assert '"WebhookGivenUp": 1' in webhook
    assert written <= read


def test_alarms_read_counts_of_the_stack_that_have_no_dimensions(worker):
    alarms = worker.of_type("AWS::CloudWatch::Alarm").values()
    own = [body for body in alarms if body.get("MetricName") in counted()]
    own += [part["MetricStat"]["Metric"] for body in alarms for part in body.get("Metrics", ()) if "MetricStat" in part]

    assert len(own) == len(counted())
    for metric in own:
        assert (metric["Namespace"], "Dimensions" in metric) == ("Piecework/piecework", False)
    variables = worker.globals["Function"]["Environment"]["Variables"]
    assert variables["POWERTOOLS_METRICS_NAMESPACE"] == "Piecework/piecework"


def test_bodies_of_the_edge_have_the_shape_of_the_door(worker):
    responses = worker.of_type("AWS::Serverless::Api")["WorkerApi"]["GatewayResponses"]

    for name, response in responses.items():
        body = json.loads(response["ResponseTemplates"]["application/json"])
        assert body["status"] == "failed", name
        assert set(body["error"]) == {"code", "message", "details", "retryable"}, name
        assert body["error"]["retryable"] is CODES[body["error"]["code"]].retryable, name
        assert response["ResponseParameters"]["Headers"]["Cache-Control"] == "'no-store'", name
        assert response.get("StatusCode") != 402, name


def test_throttled_callers_are_told_to_come_back(worker):
    throttled = worker.of_type("AWS::Serverless::Api")["WorkerApi"]["GatewayResponses"]["THROTTLED"]

    assert throttled["StatusCode"] == 429
    assert throttled["ResponseParameters"]["Headers"]["Retry-After"] == "'1'"


def test_the_access_log_holds_no_path_body_or_query(worker):
    log_format = worker.of_type("AWS::Serverless::Api")["WorkerApi"]["AccessLogSetting"]["Format"]

    assert "$context.resourcePath" in log_format
    assert "$context.path" not in log_format


def test_the_defaults_of_the_template_are_the_defaults_of_the_code(functions):
    variables = {}
    for function in functions.values():
        variables |= function["Environment"]["Variables"]
    stated = {name: variables[name] for name in ("PUBLIC_BASE_URL", "WORKER_AGENT_ID", "WORKER_WALLETS")}
    stated |= {"FACILITATOR_URL": variables["FACILITATOR_URL"], "SSE_MODE": "streaming"}

    assert WorkerSettings.from_env(variables) == WorkerSettings.from_env(stated)


DEVELOPMENT_WALLET = "0x1563915e194D8CfBA1943570603F7606A3115508"  # of the key that tests and `make run` sign with


@pytest.mark.parametrize(
    "wallet", [DEVELOPMENT_WALLET, DEVELOPMENT_WALLET.lower(), "0x" + DEVELOPMENT_WALLET[2:].upper()]
)
def test_nobody_deploys_with_the_wallet_whose_key_is_public(raw_template, wallet):
    pattern, own = raw_template["Parameters"]["WorkerWallets"]["AllowedPattern"], "0x" + "5a" * 20

    for wallets, passes in (
        (own, True),
        (f"{own},{own}", True),
        ("", True),
        (wallet, False),
        (f"{own},{wallet}", False),
    ):
        assert bool(re.fullmatch(pattern, wallets)) is passes


DOUBT_DAYS = 3  # from a file's writing to the end of its task: a day of work, then two of an unknown settlement


@pytest.mark.parametrize("prefix", ["deliverables/", "work/"])
def test_what_was_promised_outlives_the_promise_whatever_it_is_today(raw_template, load_template, prefix):
    offered = raw_template["Parameters"]["ResultDays"]["AllowedValues"]
    settings = [load_template(ResultDays=str(days)).of_type("AWS::S3::Bucket")["Bucket"] for days in offered]
    lives = [_lives(bucket["LifecycleConfiguration"]["Rules"], prefix) for bucket in settings]

    assert all(life == lives[0] for life in lives)  # another promise deletes nothing that is there
    for days in offered:
        assert lives[0].get(str(days), lives[0][None]) > days + DOUBT_DAYS
        assert lives[0][None] >= lives[0].get(str(days), 0)


def _lives(rules, prefix):
    """Days by the promise that an object's tag names; None: the rule for all of them."""
    of_prefix = [rule for rule in rules if rule.get("Prefix") == prefix]
    return {
        (tags[0]["Value"] if (tags := rule.get("TagFilters")) else None): rule["ExpirationInDays"] for rule in of_prefix
    }


def test_whoever_writes_what_is_promised_may_say_for_how_long(worker):
    for name in ("Hire", "Task"):
        own = [one for one in statements(worker, name) if isinstance(one, dict)]
        writers = [one for one in own if "s3:PutObject" in one.get("Action", ())]

        assert len(writers) == 2 and all("s3:PutObjectTagging" in one["Action"] for one in writers)


def test_tables_forget_by_themselves_where_they_should_and_survive_the_stack(raw_template, worker):
    tables = worker.of_type("AWS::DynamoDB::Table")

    for name in ("ContractsTable", "WorkTable", "DueTable"):
        assert raw_template["Resources"][name]["DeletionPolicy"] == "RetainExceptOnCreate"
        assert tables[name]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert "TimeToLiveSpecification" not in tables["DueTable"]  # a due time ends when it was looked at, never by itself


def test_the_ladder_fits_into_the_life_of_a_message():
    assert sum(LADDER_SECONDS) < 4 * 86_400  # re-queued every 15 minutes, so no message is old in any case


def test_the_build_has_a_target_for_every_function_and_layer(root, worker, build_command):
    layers = (root / "layers/Makefile").read_text("utf-8")

    for name in FUNCTIONS:
        handler = worker.of_type("AWS::Serverless::Function")[f"{name}Function"]["Handler"]
        folder = "/".join(re.split("[./]", handler)[:2])
        assert f" local.build function {folder} " in build_command(f"{name}Function")
        assert (root / "functions" / folder / "app.py").is_file()
    assert "build-HireLayer:" in layers


@pytest.mark.parametrize("origin", ["*", "https://seeker.example"])
def test_the_bucket_lets_the_origins_read_that_the_functions_let_and_the_edges_own_texts_are_for_all(
    load_template, origin
):
    template = load_template(DeployWorkerDoor="true", WorkerCorsOrigin=origin)
    responses = template.of_type("AWS::Serverless::Api")["WorkerApi"]["GatewayResponses"]
    headers = [response["ResponseParameters"]["Headers"] for response in responses.values()]
    functions = template.of_type("AWS::Serverless::Function")
    (bucket,) = template.of_type("AWS::S3::Bucket").values()
    (rule,) = bucket["CorsConfiguration"]["CorsRules"]

    assert {each["Access-Control-Allow-Origin"] for each in headers} == {"'*'"}  # else a stage would need redeploying
    assert all("Retry-After" in each["Access-Control-Expose-Headers"] for each in headers)
    assert rule["AllowedOrigins"] == [origin] and set(rule["AllowedMethods"]) == {"GET", "HEAD"}
    for name in ("HireFunction", "ContractsFunction", "WorkerStreamsFunction"):
        assert functions[name]["Environment"]["Variables"]["CORS_ORIGIN"] == origin
