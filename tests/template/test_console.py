"""The operator's door as it is deployed: on purpose alone, never open, each function with what it needs."""

import json

import pytest

from local.deploy import check_rules
from local.parameters import Refused, check_values
from piecework.aws.listed import BY_DAY
from piecework.aws.rows.pauses import PK
from piecework.ops.door import STATUS
from piecework.ops.kernel.watching import LIFE_SECONDS
from piecework.ops.kernel_routes import EVALUATE, KERNEL, STREAM
from piecework.ops.status import QUEUES, SHOWN
from piecework.ops.store.standing_rows import APPROVALS, PAUSED
from piecework.worker.record.execution import DOUBT_DUE
from tests.support.roles import routes_of, statements

FUNCTIONS = ["OpsReading", "OpsWriting", "OpsFiles"]
OF_KERNEL = ["OpsKernelReading", "OpsKernelWriting", "OpsKernelStreams"]
TOKENS = "arn:aws:secretsmanager:us-east-1:000000000000:secret:ops-AbCdEf"
CONFIGURED = {"DeployConsole": "true", "OpsTokensSecretArn": TOKENS}
EVERY_DOOR = {**CONFIGURED, "DeployWorkerDoor": "true", "DeployKernelDoor": "true"}
AT_THE_EDGE = {"rate_limited"}


@pytest.fixture
def console(load_template):
    return load_template(**EVERY_DOOR)


@pytest.fixture
def functions(console):
    return {name: console.of_type("AWS::Serverless::Function")[f"{name}Function"] for name in (*FUNCTIONS, *OF_KERNEL)}


def leading_keys(entry):
    return entry["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]


def test_without_the_parameter_nothing_of_it_is_deployed(conditional, names_in, template):
    its = conditional("ConsoleDoor")

    assert {"ConsoleApi", *(f"{name}Function" for name in FUNCTIONS)} < its
    assert not names_in(template) & its


def test_it_is_deployable_beside_any_other_door_or_none(load_template):
    for doors in ({}, {"DeployRuntimeDoor": "false"}, {"DeployWorkerDoor": "true"}, {"DeployKernelDoor": "true"}):
        template = load_template(**CONFIGURED, **doors)

        assert "ConsoleApi" in template.of_type("AWS::Serverless::Api")
        assert "ApiAccount" in template.of_type("AWS::ApiGateway::Account")
        assert template.of_type("AWS::Serverless::Function").keys() >= {f"{name}Function" for name in FUNCTIONS}


def test_it_cannot_be_deployed_without_tokens_or_a_sign_in(raw_template):
    alone = {"DeployRuntimeDoor": "false"}
    with pytest.raises(Refused, match="OpsTokensSecretArn"):
        check_rules(raw_template, {**alone, "DeployConsole": "true", "ConsoleSignIn": "tokens"})
    check_rules(raw_template, {**alone, "DeployConsole": "true"})
    check_rules(raw_template, {**alone, **CONFIGURED})
    check_rules(raw_template, alone)


def test_roles_of_tokens_need_the_tokens(raw_template):
    """As at the kernel door: roles without their secret would be roles of nobody."""
    given = {"DeployRuntimeDoor": "false", "DeployConsole": "true", "OpsTokenRoles": "ann=operator"}

    with pytest.raises(Refused, match="OpsTokensSecretArn, which is empty"):
        check_rules(raw_template, given)
    check_rules(raw_template, {**given, "OpsTokensSecretArn": TOKENS})


@pytest.mark.parametrize("text", ["2026-13-01", "2026-1-1", "today", "2026-01-01 "])
def test_the_ledgers_first_day_is_a_day(raw_template, load_template, text):
    with pytest.raises(Refused, match="LedgerCompleteFrom"):
        check_values(raw_template, {"LedgerCompleteFrom": text})
    template = load_template(**CONFIGURED, LedgerCompleteFrom="2026-11-30")
    variables = template.of_type("AWS::Serverless::Function")["OpsReadingFunction"]["Environment"]["Variables"]
    assert variables["PIECEWORK_LEDGER_COMPLETE_FROM"] == "2026-11-30"


@pytest.mark.parametrize("text", ["ann=king", "ann", "ann=viewer,", "=viewer", "ann=viewer+"])
def test_roles_that_do_not_exist_are_refused_before_the_deployment(raw_template, text):
    with pytest.raises(Refused, match="OpsTokenRoles"):
        check_values(raw_template, {"OpsTokenRoles": text})
    check_values(raw_template, {"OpsTokenRoles": "ann=viewer,bob=operator+approver"})


def test_what_is_posted_goes_to_the_function_that_writes_files_to_their_own_and_all_else_to_the_one_that_reads(console):
    events = {route: name for route, (name, _) in routes_of(console, "ConsoleApi").items()}

    reading = dict.fromkeys((("/{proxy+}", "get"), ("/{proxy+}", "any"), ("/", "any")), "OpsReadingFunction")
    files = dict.fromkeys((("/", "get"), ("/console", "any"), ("/console/{proxy+}", "any")), "OpsFilesFunction")
    of_kernel = {
        **dict.fromkeys(((f"{KERNEL}/{{proxy+}}", "get"), (f"{KERNEL}/{{proxy+}}", "any")), "OpsKernelReadingFunction"),
        **dict.fromkeys(((EVALUATE, "post"), (EVALUATE, "any")), "OpsKernelReadingFunction"),
        (f"{KERNEL}/{{proxy+}}", "post"): "OpsKernelWritingFunction",
    }
    of_kernel |= {(STREAM, "get"): "OpsKernelStreamsFunction", (STREAM, "any"): "OpsKernelReadingFunction"}
    assert events == {**reading, **files, ("/{proxy+}", "post"): "OpsWritingFunction", **of_kernel}


def test_the_status_gets_what_it_shows(functions):
    variables = functions["OpsReading"]["Environment"]["Variables"]

    assert set(SHOWN) <= variables.keys()
    for begin in QUEUES.values():
        assert variables[f"{begin}_QUEUE_URL"] and variables[f"{begin}_DEAD_LETTERS_QUEUE_URL"]


def test_every_queue_is_counted_and_its_dead_letters_can_be_put_back(console, functions):
    queues = [name for name in console.of_type("AWS::SQS::Queue") if name.endswith("Queue")]
    addresses = {str(console.resolve({"Ref": name})) for name in queues}

    for name in ("OpsReading", "OpsWriting"):
        variables = functions[name]["Environment"]["Variables"]
        assert {variables[f"{begin}_QUEUE_URL"] for begin in QUEUES.values()} == addresses
    for name in queues:
        dead = console.resolve({"Fn::GetAtt": [name.removesuffix("Queue") + "DeadLetters", "Arn"]})
        own = console.resolve({"Fn::GetAtt": [name, "Arn"]})
        assert_granted(console, "OpsReading", "sqs:GetQueueAttributes", own, dead)
        assert_granted(console, "OpsWriting", "sqs:ReceiveMessage", dead)
        assert_granted(console, "OpsWriting", "sqs:DeleteMessage", dead)
        assert_granted(console, "OpsWriting", "sqs:SendMessage", own)


def assert_granted(template, name, action, *arns):
    found = [entry["Resource"] for entry in statements(template, name) if action in entry["Action"]]
    assert set(arns) <= {arn for resource in found for arn in (resource if isinstance(resource, list) else [resource])}


def test_the_function_that_reads_can_neither_write_nor_take_a_message(console):
    actions = {action for entry in statements(console, "OpsReading") for action in entry["Action"]}
    reading = {
        *("logs:CreateLogStream", "logs:PutLogEvents", "secretsmanager:GetSecretValue", "sqs:GetQueueAttributes"),
        *("logs:FilterLogEvents", "cloudwatch:GetMetricData", "ssm:GetParameter"),
        *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "s3:GetObject"),
    }

    assert actions == reading
    wide = [entry["Action"] for entry in statements(console, "OpsReading") if entry["Resource"] == "*"]
    assert wide == [["cloudwatch:GetMetricData"]]


def test_of_all_functions_the_one_that_reads_the_status_may_ask_for_metrics_where_there_are_queues(
    console, load_template
):
    roles = console.of_type("AWS::IAM::Role")
    assert [name for name, role in roles.items() if "cloudwatch:" in str(role)] == ["OpsReadingRole"]
    without = load_template(**CONFIGURED, DeployWorkerDoor="false", DeployKernelDoor="false")
    assert "cloudwatch:" not in str(without.of_type("AWS::IAM::Role"))


def test_of_all_logs_the_function_that_reads_may_read_the_one_of_verdicts(console, functions, load_template):
    [entry] = [entry for entry in statements(console, "OpsReading") if entry["Action"] == ["logs:FilterLogEvents"]]
    variables = functions["OpsReading"]["Environment"]["Variables"]
    retention = console.of_type("AWS::Logs::LogGroup")["VerifyLogGroup"]["RetentionInDays"]

    assert entry["Resource"].endswith(":log-group:VerifyLogGroup:*")
    assert variables["PIECEWORK_VERIFY_LOG_GROUP"] == "VerifyLogGroup"
    assert str(variables["PIECEWORK_LOG_RETENTION_DAYS"]) == str(retention)
    without = load_template(**CONFIGURED, DeployRuntimeDoor="false")
    assert "logs:FilterLogEvents" not in str(statements(without, "OpsReading"))


@pytest.mark.parametrize("name", ["OpsKernelReading", "OpsKernelStreams"])
def test_the_functions_that_read_the_kernel_can_only_read(console, name):
    actions = {action for entry in statements(console, name) for action in entry["Action"]}
    reading = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "s3:GetObject", "ssm:GetParameter"}

    assert actions == {"logs:CreateLogStream", "logs:PutLogEvents", "secretsmanager:GetSecretValue", *reading}


def test_who_acts_on_the_kernel_has_no_more_than_the_kernel_doors_function_and_none_of_its_tokens(console):
    def allowed(name):
        return {(action, str(entry["Resource"])) for entry in statements(console, name) for action in entry["Action"]}

    of_door, ours = allowed("Kernel"), allowed("OpsKernelWriting")

    to_know_callers = {action for action, _ in ours - of_door if not action.startswith("logs:")}
    assert to_know_callers == {"secretsmanager:GetSecretValue", "ssm:GetParameter"}
    assert ("secretsmanager:GetSecretValue", TOKENS) in ours
    for name in OF_KERNEL:
        variables = console.of_type("AWS::Serverless::Function")[f"{name}Function"]["Environment"]["Variables"]
        assert "PIECEWORK_KERNEL_TOKENS_SECRET_ARN" not in variables
        assert variables["PIECEWORK_OPS_TOKENS_SECRET_ARN"] == TOKENS


def test_a_stream_is_written_as_it_comes_and_outlives_no_limit(console):
    function = console.of_type("AWS::Serverless::Function")["OpsKernelStreamsFunction"]
    [event] = function["Events"].values()
    longest = LIFE_SECONDS + 30

    assert event["Properties"]["ResponseTransferMode"] == "RESPONSE_STREAM"
    assert longest < function["Timeout"] <= event["Properties"]["TimeoutInMillis"] / 1000
    assert function["Environment"]["Variables"]["AWS_LWA_INVOKE_MODE"] == "response_stream"


def test_without_a_kernel_door_there_is_nothing_of_it_at_the_operators(load_template):
    template = load_template(**CONFIGURED, DeployWorkerDoor="true")
    kinds = ("AWS::Serverless::Function", "AWS::IAM::Role", "AWS::Logs::LogGroup", "AWS::CloudWatch::Alarm")

    assert [name for kind in kinds for name in template.of_type(kind) if name.startswith("OpsKernel")] == []


@pytest.mark.parametrize("name", FUNCTIONS + OF_KERNEL)
def test_a_function_is_described_logged_watched_and_released_through_its_alias(console, functions, name):
    function, alarms = functions[name], console.of_type("AWS::CloudWatch::Alarm")

    assert function["Description"] and (function["Timeout"] < 29 or name.endswith("Streams"))
    assert function["LoggingConfig"] == {"LogGroup": f"{name}LogGroup"}
    assert function["AutoPublishAliasAllProperties"] is True
    assert function["DeploymentPreference"]["Alarms"] == [f"{name}ErrorsAlarm"]
    for metric in ("Errors", "Throttles"):
        assert alarms[f"{name}{metric}Alarm"]["Dimensions"] == [{"Name": "FunctionName", "Value": f"{name}Function"}]


@pytest.mark.parametrize("name", FUNCTIONS + OF_KERNEL)
def test_zero_means_unreserved(load_template, functions, name):
    reserved = load_template(**EVERY_DOOR, **{f"{name}ReservedConcurrency": "7"}).of_type("AWS::Serverless::Function")

    assert reserved[f"{name}Function"]["ReservedConcurrentExecutions"] == "7"
    assert "ReservedConcurrentExecutions" not in functions[name]


def test_bodies_of_the_edge_have_the_shape_of_the_door(console):
    for name, response in console.of_type("AWS::Serverless::Api")["ConsoleApi"]["GatewayResponses"].items():
        body = json.loads(response["ResponseTemplates"]["application/json"])

        assert list(body) == ["error", "code"], name
        assert body["code"] in STATUS.keys() | AT_THE_EDGE, name
        assert response["ResponseParameters"]["Headers"]["Cache-Control"] == "'no-store'", name


def test_the_access_log_holds_no_path_body_or_query(console):
    log_format = console.of_type("AWS::Serverless::Api")["ConsoleApi"]["AccessLogSetting"]["Format"]

    assert "$context.resourcePath" in log_format and "$context.path" not in log_format


def test_pieces_are_listed_from_an_index_that_names_what_it_holds(console):
    for table in ("WorkTable", "ContractsTable"):
        [other] = console.of_type("AWS::DynamoDB::Table")[table]["GlobalSecondaryIndexes"]
        assert (other["IndexName"], other["Projection"]) == (BY_DAY, {"ProjectionType": "KEYS_ONLY"})
    [index] = console.of_type("AWS::DynamoDB::Table")["ResultsTable"]["GlobalSecondaryIndexes"]

    assert index["IndexName"] == BY_DAY
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["in_day", "at_id"]
    assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["caller", "executor", "step"]}


def test_the_function_that_writes_reaches_records_of_its_own_webhooks_and_queues_alone(console):
    every = [entry for entry in statements(console, "OpsWriting") if "dynamodb" in str(entry["Action"])]
    tables = [entry for entry in every if "Condition" in entry]
    by_keys = {entry["Sid"]: (str(entry["Resource"]).partition("/")[2], *leading_keys(entry)) for entry in tables}
    whole = {str(entry["Resource"]).partition("/")[2]: entry["Action"] for entry in every if entry not in tables}

    assert by_keys == {
        "RecordWhatIsDone": ("piecework-results", "OPS#*"),
        "KeepPauses": ("piecework-results", PK),
        "ForgetPieces": ("piecework-results", *(f"{digit}*" for digit in "0123456789abcdef")),
        "FindStepsOfPieces": ("piecework-results/index/ByDay", "STEP#*"),
        "RestartWebhooks": ("piecework-work", "WEBHOOK#*"),
        "RestartWebhooksAboutApprovals": ("piecework-kernel", "WEBHOOK#*"),
        "ReadAndDecidePayments": ("piecework-work", "EXEC#*"),
        "AddToTheLedger": ("piecework-work", "LEDGER#*"),
        "CountRefunds": ("piecework-work", "REFUND#*"),
        "EndClaims": ("piecework-work", "CLAIM#*"),
        "EndDoubts": ("piecework-due", f"{DOUBT_DUE}#*"),
        "EmptyWebhooksAndStreams": ("piecework-work", "WEBHOOK#*", "STREAM#*"),
        "DropStepsOfTasks": ("piecework-work", "STEP#*"),
        "FindStepsOfTasks": ("piecework-work/index/ByDay", "STEP#*"),
    }
    assert whole == {
        "piecework-contracts": ["dynamodb:GetItem", "dynamodb:UpdateItem"],
        "piecework-due": ["dynamodb:PutItem"],
    }
    assert all(entry["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"} for entry in tables)


def test_the_function_that_writes_cannot_take_back_what_operators_did(console):
    records = [entry for entry in statements(console, "OpsWriting") if entry["Sid"] == "RecordWhatIsDone"]

    assert [entry["Action"] for entry in records] == [["dynamodb:PutItem", "dynamodb:UpdateItem"]]


def test_the_function_that_writes_erases_where_payloads_lie_and_lists_nothing_else_of_the_bucket(console):
    of_the_bucket = [entry for entry in statements(console, "OpsWriting") if "s3:" in str(entry["Action"])]
    erased = {where.partition("/")[2] for entry in of_the_bucket for where in listed(entry["Resource"])} - {""}
    [found] = [entry for entry in of_the_bucket if entry["Action"] == ["s3:ListBucketVersions"]]

    assert (
        erased
        == set(found["Condition"]["StringLike"]["s3:prefix"])
        == {*("results/*", "evidence/*", "work/*", "deliverables/*")}
    )
    assert {action for entry in of_the_bucket for action in entry["Action"]} == {
        *("s3:ListBucketVersions", "s3:DeleteObjectVersion", "s3:GetObject")
    }


def listed(value):
    return [value] if isinstance(value, str) else value


def test_the_function_of_the_files_may_write_its_log_and_knows_where_people_sign_in_alone(console, functions):
    [entry] = statements(console, "OpsFiles")

    assert entry["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert entry["Resource"].endswith(":log-group:OpsFilesLogGroup:*")
    public = {"POWERTOOLS_SERVICE_NAME", "PIECEWORK_OPS_ISSUER", "PIECEWORK_OPS_CONNECT_ORIGIN"}
    assert set(functions["OpsFiles"]["Environment"]["Variables"]) == public


def test_the_function_that_writes_can_ask_the_chain_and_holds_no_key_that_settles(load_template):
    for given, node in (
        ({}, ""),
        ({"BaseRpcUrlSecretArn": TOKENS}, TOKENS),
        ({"BaseRpcUrl": "https://n.example"}, "KeptRpcUrl"),
    ):
        template = load_template(**EVERY_DOOR, **given)
        variables = template.of_type("AWS::Serverless::Function")["OpsWritingFunction"]["Environment"]["Variables"]
        secrets = [entry["Resource"] for entry in statements(template, "OpsWriting") if entry["Sid"] == "ReadNodeUrl"]

        assert variables["BASE_RPC_URL_SECRET_ARN"] == node and secrets == ([node] if node else [])
        assert "FACILITATOR_AUTH" not in variables
    alone = load_template(**CONFIGURED, BaseRpcUrlSecretArn=TOKENS)  # a stack without the worker door
    assert "ReadNodeUrl" not in [entry["Sid"] for entry in statements(alone, "OpsWriting")]


def test_the_function_that_writes_adds_to_the_ledger_and_takes_nothing_out(console):
    may = {entry["Sid"]: entry["Action"] for entry in statements(console, "OpsWriting")}

    assert may["ReadAndDecidePayments"] == ["dynamodb:GetItem", "dynamodb:PutItem"]
    assert may["AddToTheLedger"] == ["dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
    assert may["CountRefunds"] == ["dynamodb:GetItem", "dynamodb:PutItem"]
    assert may["EndClaims"] == ["dynamodb:UpdateItem"]


def test_the_function_that_reads_reaches_no_streams_claims_or_seats_and_of_due_times_and_the_kernel_what_waits(console):
    by_table = {str(entry["Resource"]).rpartition("/")[2]: entry for entry in statements(console, "OpsReading")}
    entry = by_table["piecework-work"]

    assert entry["Condition"] == {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["EXEC#*", "WEBHOOK#*", "LEDGER#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    assert leading_keys(by_table["piecework-due"]) == [f"{DOUBT_DUE}#*"]
    assert leading_keys(by_table["piecework-kernel"]) == [APPROVALS, PAUSED]
    for table in ("piecework-due", "piecework-kernel"):
        assert by_table[table]["Action"] == ["dynamodb:Query"]
        assert by_table[table]["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"}


@pytest.mark.parametrize("name", ["Hire", "Contracts", "Kernel", "OpsKernelWriting"])
def test_a_function_that_begins_work_of_another_table_reads_the_row_of_pauses_and_nothing_else_there(
    load_template, name
):
    template = load_template(**EVERY_DOOR)
    reads = [entry for entry in statements(template, name) if "piecework-results" in str(entry["Resource"])]
    variables = template.of_type("AWS::Serverless::Function")[f"{name}Function"]["Environment"]["Variables"]

    [entry] = reads
    assert (entry["Action"], leading_keys(entry)) == (["dynamodb:GetItem"], [PK])
    assert entry["Condition"]["Null"] == {"dynamodb:LeadingKeys": "false"}
    assert variables["PIECEWORK_TABLE"] == "piecework-results"


def test_no_other_function_of_the_worker_or_the_kernel_reads_pauses(load_template):
    template = load_template(DeployWorkerDoor="true", DeployKernelDoor="true")
    functions = template.of_type("AWS::Serverless::Function")
    knows = {name for name, body in functions.items() if "PIECEWORK_TABLE" in body["Environment"]["Variables"]}

    assert {name.removesuffix("Function") for name in knows} == {
        "Execute",
        "AgentEvents",
        "Hire",
        "Contracts",
        "Kernel",
    }
