"""What a deployment makes of the template: rules for every function, queue, alarm and API after the transform."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from piecework.errors import SettingsError
from tests.template.conftest import EVERY_DOOR, ROOT, sam_transform

NODE = "arn:aws:secretsmanager:us-east-1:000000000000:secret:node"
ANOTHER_VALUE = {"ExecuteTimeoutMs": "45000"}  # of a parameter that an API's document reads
LONGEST_CHAIN = 16  # invocations in a row after which Lambda ends a loop that nobody has allowed


def of_type(transformed: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: body.get("Properties", {}) for name, body in transformed["Resources"].items() if body["Type"] == kind}


def nodes(value: Any) -> Iterator[Any]:
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(part)


def statements(transformed: dict[str, Any], function: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a function may do, its optional rights too."""
    role = transformed["Resources"][function["Role"]["Fn::GetAtt"][0]]["Properties"]
    yield from (
        node for node in nodes(role["Policies"]) if isinstance(node, dict) and {"Action", "Resource"} <= node.keys()
    )


def sends_to(transformed: dict[str, Any]) -> dict[str, set[str]]:
    """For each function, those that its messages invoke."""
    takers: dict[str, str] = {}
    for mapping in of_type(transformed, "AWS::Lambda::EventSourceMapping").values():
        takers[mapping["EventSourceArn"]["Fn::GetAtt"][0]] = mapping["FunctionName"]["Ref"].removesuffix("Aliaslive")
    reached: dict[str, set[str]] = {}
    for name, function in of_type(transformed, "AWS::Lambda::Function").items():
        sending = [entry for entry in statements(transformed, function) if "sqs:SendMessage" in entry["Action"]]
        reached[name] = {takers[entry["Resource"]["Fn::GetAtt"][0]] for entry in sending}
    return reached


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += graph[name]
    return found


def test_every_function_whose_messages_lead_back_to_it_may_loop_and_no_other(transformed):
    graph = sends_to(transformed)
    functions = of_type(transformed, "AWS::Lambda::Function")

    looping = {name for name in graph if name in reachable(graph, name)}

    assert {"WebhookFunction", "TaskFunction", "WorkerDueFunction", "KernelDueFunction"} <= looping
    assert {name for name, body in functions.items() if body.get("RecursiveLoop") == "Allow"} == looping


def read_by(document: Any, parameters: dict[str, Any]) -> set[str]:
    """The parameters that an API's document reads, whichever function of CloudFormation reads them."""
    read = {node["Ref"] for node in nodes(document) if isinstance(node, dict) and "Ref" in node}
    texts = [node["Fn::Sub"] for node in nodes(document) if isinstance(node, dict) and "Fn::Sub" in node]
    read |= {name for text in texts for name in re.findall(r"\$\{(\w+)\}", json.dumps(text))}
    return read & parameters.keys()


def deployments(transformed: dict[str, Any]) -> dict[str, str]:
    """For each API, the deployment that its stage serves."""
    stages = of_type(transformed, "AWS::ApiGateway::Stage").values()
    return {stage["RestApiId"]["Ref"]: stage["DeploymentId"]["Ref"] for stage in stages}


def test_a_changed_parameter_of_an_api_reaches_its_stage_and_an_unchanged_one_deploys_nothing(transformed):
    apis = of_type(transformed, "AWS::ApiGateway::RestApi")
    read = {name: read_by(api["Body"], transformed["Parameters"]) for name, api in apis.items()}
    names = sorted(set().union(*read.values()))
    assert "ExecuteTimeoutMs" in names

    again, *changed = sam_transform(EVERY_DOOR, *(EVERY_DOOR | {name: ANOTHER_VALUE[name]} for name in names))

    assert deployments(again) == deployments(transformed)
    for name, other in zip(names, changed, strict=True):
        moved = {api for api, kept in deployments(transformed).items() if deployments(other)[api] != kept}
        assert moved == {api for api in apis if name in read[api]}, name


def test_no_stage_keeps_urls_in_its_traces_and_functions_that_trace_may(transformed):
    assert not [stage for stage in of_type(transformed, "AWS::ApiGateway::Stage").values() if stage["TracingEnabled"]]
    traced = {
        name
        for name, body in of_type(transformed, "AWS::Lambda::Function").items()
        if body.get("TracingConfig", {}).get("Mode") == "Active"
    }
    allowed = {
        name
        for name, body in of_type(transformed, "AWS::Lambda::Function").items()
        if any("xray:PutTraceSegments" in entry["Action"] for entry in statements(transformed, body))
    }
    assert traced == allowed == {"ExecuteFunction", "VerifyFunction", "HireFunction", "TaskFunction"}


def measured(alarm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The metrics that an alarm reads."""
    yield from ([alarm] if "MetricName" in alarm else ())
    yield from (part["MetricStat"]["Metric"] for part in alarm.get("Metrics", ()) if "MetricStat" in part)


def names_the_stack(value: Any) -> bool:
    return "AWS::StackName" in json.dumps(value) or any(
        isinstance(node, dict) and node.keys() & {"Ref", "Fn::GetAtt"} for node in nodes(value)
    )


def test_stacks_of_one_account_share_no_metric_and_no_alarm(transformed):
    alarms = of_type(transformed, "AWS::CloudWatch::Alarm")
    metrics = [(name, metric) for name, alarm in alarms.items() for metric in measured(alarm)]
    written = [
        body["Environment"]["Variables"]["POWERTOOLS_METRICS_NAMESPACE"]
        for body in of_type(transformed, "AWS::Lambda::Function").values()
    ]

    assert len(metrics) >= len(alarms) > 0
    for name, metric in metrics:
        own = [metric["Namespace"]] if not str(metric["Namespace"]).startswith("AWS/") else metric["Dimensions"]
        assert any(names_the_stack(part) for part in own), name
    assert all(names_the_stack(namespace) for namespace in written)


def test_every_function_skips_the_search_for_plugins_of_pydantic(transformed):
    for name, body in of_type(transformed, "AWS::Lambda::Function").items():
        assert body["Environment"]["Variables"].get("PYDANTIC_DISABLE_PLUGINS") == "__all__", name


def test_a_message_survives_four_throttles_and_no_more_are_taken_than_may_run(transformed, deployed):
    queues = of_type(transformed, "AWS::SQS::Queue").values()
    counts = [queue["RedrivePolicy"]["maxReceiveCount"] for queue in queues if "RedrivePolicy" in queue]
    mappings = deployed().of_type("AWS::Lambda::EventSourceMapping")

    assert counts
    assert all(count >= 5 for count in counts)
    assert all(2 <= int(body["ScalingConfig"]["MaximumConcurrency"]) <= 1000 for body in mappings.values())


@pytest.mark.parametrize(
    "name", ["Task", "Webhook", "WorkerDue", "KernelDue", "KernelHosted", "KernelNotices", "KernelWebhooks"]
)
@pytest.mark.parametrize(("reserved", "taken"), [("1", "2"), ("2", "2"), ("40", "40")])
def test_a_queue_takes_as_many_messages_as_its_function_has_reserved(deployed, name, reserved, taken):
    """Two is the least that a mapping takes."""
    mappings = deployed(**{f"{name}ReservedConcurrency": reserved}).of_type("AWS::Lambda::EventSourceMapping")

    assert str(mappings[f"{name}FunctionMessage"]["ScalingConfig"]["MaximumConcurrency"]) == taken


def test_no_function_gets_a_secret_in_a_plain_variable(transformed):
    secret = {name for name, body in transformed["Parameters"].items() if body.get("NoEcho")}

    assert "BaseRpcUrl" in secret
    for name, body in of_type(transformed, "AWS::Lambda::Function").items():
        assert not read_by(body["Environment"], dict.fromkeys(secret)), name


@pytest.mark.parametrize(
    ("given", "arn"),
    [
        ({}, ""),
        ({"BaseRpcUrl": "https://node.example/key"}, "KeptRpcUrl"),
        ({"BaseRpcUrlSecretArn": NODE}, NODE),
        ({"BaseRpcUrl": "https://old.example/key", "BaseRpcUrlSecretArn": NODE}, NODE),
    ],
)
def test_the_nodes_url_comes_as_a_secret_and_only_those_read_it_who_ask_the_chain(deployed, given, arn):
    template = deployed(**given)
    functions = template.of_type("AWS::Lambda::Function")

    reading = {
        name for name, body in functions.items() if "BASE_RPC_URL_SECRET_ARN" in body["Environment"]["Variables"]
    }
    assert reading == {"HireFunction", "TaskFunction", "OpsWritingFunction"}
    for name in reading:
        assert functions[name]["Environment"]["Variables"]["BASE_RPC_URL_SECRET_ARN"] == arn
        role = template.of_type("AWS::IAM::Role")[name.replace("Function", "Role")]
        granted = [
            entry["Resource"]
            for policy in role["Policies"]
            for entry in policy["PolicyDocument"]["Statement"]
            if entry["Sid"] == "ReadNodeUrl"
        ]
        assert granted == ([arn] if arn else [])
    assert set(template.of_type("AWS::SecretsManager::Secret")) >= ({"KeptRpcUrl"} if arn == "KeptRpcUrl" else set())


def test_unpaid_output_is_told_by_the_functions_that_produce_it(transformed):
    given = {
        name
        for name, body in of_type(transformed, "AWS::Lambda::Function").items()
        if "STREAM_UNPAID_OUTPUT" in body["Environment"]["Variables"]
    }

    assert given == {"HireFunction", "TaskFunction"}


def test_a_fix_can_be_released_although_the_alarm_is_on(deployed):
    gated = deployed().of_type("AWS::CodeDeploy::DeploymentGroup")
    let_through = deployed(ReleaseThroughAlarms="true").of_type("AWS::CodeDeploy::DeploymentGroup")

    assert gated
    for name, body in gated.items():
        assert body["AlarmConfiguration"]["Alarms"] == [
            {"Name": name.replace("FunctionDeploymentGroup", "ErrorsAlarm")}
        ]
        assert not let_through[name].get("AlarmConfiguration", {}).get("Alarms")


def test_the_task_function_knows_the_doors_address_without_a_request(deployed):
    """It works for a queue; the API does not refer to it, so it may refer to the API."""
    derived = deployed().of_type("AWS::Lambda::Function")
    given = deployed(WorkerPublicUrl="https://w.example").of_type("AWS::Lambda::Function")

    for name in ("HireFunction", "ContractsFunction", "WorkerStreamsFunction"):
        assert derived[name]["Environment"]["Variables"]["PUBLIC_BASE_URL"] == ""
        assert derived[name]["Environment"]["Variables"]["PIECEWORK_URL_SUFFIX"] == "amazonaws.com"
    task = derived["TaskFunction"]["Environment"]["Variables"]
    assert task["PUBLIC_BASE_URL"] == "https://WorkerApi.execute-api.us-east-1.amazonaws.com/prod"
    assert given["TaskFunction"]["Environment"]["Variables"]["PUBLIC_BASE_URL"] == "https://w.example"


@pytest.mark.parametrize("name", ["WorkerStreamsFunction", "KernelStreamsFunction"])
def test_streams_take_a_copy_of_the_adapters_layer_where_the_region_has_no_public_one(deployed, name):
    own = "arn:aws:lambda:ap-east-2:111122223333:layer:adapter:3"

    public = deployed().of_type("AWS::Lambda::Function")[name]["Layers"][-1]
    copied = deployed(WebAdapterLayerArn=own).of_type("AWS::Lambda::Function")[name]["Layers"][-1]

    assert public == "arn:aws:lambda:us-east-1:753240598075:layer:LambdaAdapterLayerArm64:27"
    assert copied == own


KEPT = {
    "ResultsTable": "TableName",
    "ContractsTable": "TableName",
    "WorkTable": "TableName",
    "DueTable": "TableName",
    "KernelTable": "TableName",
    "Bucket": "BucketName",
}


def test_what_holds_data_keeps_its_generated_name_unless_it_is_named(transformed, deployed):
    kinds = ("AWS::DynamoDB::Table", "AWS::S3::Bucket")
    named = {name if name == "BucketName" else f"{logical}Name" for logical, name in KEPT.items()}

    assert {name for kind in kinds for name in of_type(transformed, kind)} == set(KEPT)
    assert named <= transformed["Parameters"].keys()
    for logical, member in KEPT.items():
        parameter = "BucketName" if logical == "Bucket" else f"{logical}Name"
        for kind in kinds:
            if logical in deployed().of_type(kind):
                assert member not in deployed().of_type(kind)[logical]
                assert deployed(**{parameter: "orders-1"}).of_type(kind)[logical][member] == "orders-1"


def test_what_holds_data_outlives_its_stack_but_not_a_creation_that_failed(transformed):
    for logical in KEPT:
        body = transformed["Resources"][logical]

        assert (body["DeletionPolicy"], body["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain"), logical


def test_pages_may_read_what_the_kernel_doors_edge_answers(transformed):
    responses = of_type(transformed, "AWS::ApiGateway::RestApi")["KernelApi"]["Body"][
        "x-amazon-apigateway-gateway-responses"
    ]

    for name, response in responses.items():
        headers = response["responseParameters"]
        assert headers["gatewayresponse.header.Access-Control-Allow-Origin"] == "'*'", name


def test_the_buckets_net_under_kernel_values_lies_behind_the_longest_retention(transformed):
    """Values are written when they come, and forgotten when their execution has been over for its retention."""
    from piecework.kernel.settings import DURATIONS, KernelSettings

    rules = of_type(transformed, "AWS::S3::Bucket")["Bucket"]["LifecycleConfiguration"]["Rules"]
    [days] = [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == "kernel/"]
    names = {DURATIONS[field][0] for field in ("execution_timeout_ms", "retention_ms")}

    kept = KernelSettings.from_env(dict.fromkeys(names, f"{int(days * 24 * 0.4)}h"))
    with pytest.raises(SettingsError, match="REBUNO_RETENTION_PERIOD"):
        KernelSettings.from_env(dict.fromkeys(names, f"{int(days * 24 * 0.5)}h"))

    assert kept.execution_timeout_ms + kept.retention_ms < days * 86_400_000


STORED = ROOT / "tests" / "support" / "stored" / "stack_7a1e751.json"
GENERATED_NAMES = {"TableName", "BucketName"}  # new members, which an update leaves out while nobody gives a name


def test_a_stack_of_7a1e751_keeps_what_it_has(transformed, deployed):
    """Tables, buckets, APIs, functions and queues: the same logical id, kind and whatever would replace them."""
    kept = json.loads(STORED.read_text("utf-8"))

    assert set(kept["parameters"]) <= transformed["Parameters"].keys()
    for name, before in kept["resources"].items():
        after = transformed["Resources"][name]
        assert (after["Type"], after.get("Condition")) == (before["Type"], before["Condition"]), name
        for member in before.keys() - {"Type", "Condition", "AttributeDefinitions"}:
            assert after["Properties"][member] == before[member], (name, member)
        defined = after["Properties"].get("AttributeDefinitions", [])  # a new index adds some
        assert all(each in defined for each in before.get("AttributeDefinitions", [])), name
        named = GENERATED_NAMES & after.get("Properties", {}).keys()
        assert all(member not in deployed().of_type(after["Type"])[name] for member in named)
