"""What a request on the wire needs, and that recording it changes nothing."""

import asyncio
import json

import pytest

from local.gateway.lambdas.permissions import Call, needed
from local.gateway.lambdas.recording import Recorder, Requests, recorders

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table"


def a_call(service, method="POST", target="/", body=b"", **headers):
    scope = f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Call(method, target, {"authorization": scope, **named}, raw)


def dynamodb(operation, **body):
    return needed(a_call("dynamodb", x_amz_target=f"DynamoDB_20120810.{operation}", body=body))


def test_a_table_is_named_by_its_name_or_its_arn():
    expected = [("dynamodb:GetItem", f"{TABLE}/things")]

    assert dynamodb("GetItem", TableName="things") == expected
    assert dynamodb("GetItem", TableName=f"{TABLE}/things") == expected


def test_a_query_of_an_index_needs_the_index():
    assert dynamodb("Query", TableName="t", IndexName="i") == [("dynamodb:Query", f"{TABLE}/t/index/i")]


def test_a_transaction_needs_what_its_parts_need():
    parts = [{kind: {"TableName": "a"}} for kind in ("Put", "Update", "Delete")]
    parts.append({"ConditionCheck": {"TableName": "b"}})

    assert dynamodb("TransactWriteItems", TransactItems=parts) == [
        ("dynamodb:PutItem", f"{TABLE}/a"),
        ("dynamodb:UpdateItem", f"{TABLE}/a"),
        ("dynamodb:DeleteItem", f"{TABLE}/a"),
        ("dynamodb:ConditionCheckItem", f"{TABLE}/b"),
    ]


def test_a_batch_needs_itself_on_every_table():
    found = dynamodb("BatchGetItem", RequestItems={"a": {}, "b": {}})

    assert found == [("dynamodb:BatchGetItem", f"{TABLE}/a"), ("dynamodb:BatchGetItem", f"{TABLE}/b")]


@pytest.mark.parametrize(
    ("method", "target", "headers", "expected"),
    [
        ("PUT", "/b/a/k", {"if_none_match": "*"}, [("s3:PutObject", "b/a/k")]),
        ("PUT", "/b/k?x-id=PutObject", {"if_match": "x"}, [("s3:PutObject", "b/k"), ("s3:GetObject", "b/k")]),
        ("PUT", "/b/k", {"x_amz_acl": "private"}, [("s3:PutObject", "b/k"), ("s3:PutObjectAcl", "b/k")]),
        ("GET", "/b/a%20k", {}, [("s3:GetObject", "b/a k")]),
        ("HEAD", "/b/k", {}, [("s3:GetObject", "b/k")]),
        ("DELETE", "/b/k", {}, [("s3:DeleteObject", "b/k")]),
        ("GET", "/b?list-type=2", {}, [("s3:ListBucket", "b")]),
        ("PUT", "/b", {}, [("s3:PUT /b", "b")]),
        ("GET", "/b/k?acl", {}, [("s3:GET /b/k?acl", "b/k")]),
    ],
)
def test_objects_and_buckets(method, target, headers, expected):
    found = needed(a_call("s3", method, target, **headers))

    assert found == [(action, f"arn:aws:s3:::{name}") for action, name in expected]


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("SendMessage", "SendMessage"),
        ("SendMessageBatch", "SendMessage"),
        ("ReceiveMessage", "ReceiveMessage"),
        ("DeleteMessage", "DeleteMessage"),
        ("DeleteMessageBatch", "DeleteMessage"),
        ("GetQueueAttributes", "GetQueueAttributes"),
        ("ChangeMessageVisibility", "ChangeMessageVisibility"),
    ],
)
def test_a_queue_is_named_by_the_end_of_its_url_or_by_what_the_function_was_told(operation, action):
    url = "http://127.0.0.1:4566/000000000000/jobs"
    call = a_call("sqs", x_amz_target=f"AmazonSQS.{operation}", body={"QueueUrl": url})

    assert needed(call) == [(f"sqs:{action}", "arn:aws:sqs:us-east-1:000000000000:jobs")]
    told = needed(call, {url: "${JOBS_QUEUE_URL}"}.__getitem__)
    assert told == [(f"sqs:{action}", "arn:aws:sqs:us-east-1:000000000000:${JOBS_QUEUE_URL}")]


@pytest.mark.parametrize(
    "call",
    [
        a_call("monitoring", x_amz_target="GraniteServiceVersion20100801.GetMetricData"),
        a_call("monitoring", target="/service/GraniteServiceVersion20100801/operation/GetMetricData"),
    ],
    ids=["json", "cbor"],
)
def test_metrics_are_read_under_their_own_name_and_of_all_resources(call):
    assert needed(call) == [("cloudwatch:GetMetricData", "*")]


def test_a_topic_is_named_by_its_arn():
    call = a_call("sns", body=b"Action=Publish&TopicArn=arn%3Aaws%3Asns%3Ar%3A1%3Aapprovals&Message=a%26b")

    assert needed(call) == [("sns:Publish", "arn:aws:sns:r:1:approvals")]


def test_what_is_not_known_has_a_name_that_no_policy_has():
    assert needed(a_call("sts", x_amz_target="STS.GetCallerIdentity")) == [("sts:GetCallerIdentity", "*")]
    assert needed(Call("GET", "/secret", {})) == [("unsigned:GET /secret", "*")]


def test_names_that_the_function_was_told_are_written_as_variables():
    call = a_call("secretsmanager", x_amz_target="secretsmanager.GetSecretValue", body={"SecretId": "s"})

    assert needed(call, lambda name: f"<{name}>") == [("secretsmanager:GetSecretValue", "<s>")]


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_requests_are_read_however_they_are_cut(size):
    heard = []
    head = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: D.GetItem\r\ncontent-length: 2\r\n\r\n{}"
    put = b"PUT /b/k HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    requests, sent = Requests(heard.append), head + put + head

    for start in range(0, len(sent), size):
        requests.feed(sent[start : start + size])

    assert [(call.method, call.target, call.body) for call in heard] == [
        ("POST", "/", b"{}"),
        ("PUT", "/b/k", b""),
        ("POST", "/", b"{}"),
    ]


def test_nothing_is_recorded_unless_asked_for(tmp_path):
    assert recorders({"F": {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}}, None) == {}
    assert recorders({"F": {}}, str(tmp_path)) == {}


def test_bytes_pass_unchanged_and_the_call_is_written_before_it_is_made(tmp_path):
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes"
    put = b"PUT /b/k HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n" + bytes(300_000)
    out, seen = tmp_path / "calls.jsonl", []

    async def aws(reader, writer):
        seen.append(await reader.readexactly(len(put)))
        seen.append(out.read_text())
        writer.write(answer)
        writer.close()

    async def talk():
        server = await asyncio.start_server(aws, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        recorder = Recorder("F", {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "PIECEWORK_BUCKET": "b"}, out)
        await recorder.open()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(recorder.variables["AWS_ENDPOINT_URL"].rpartition(":")[2])
        )
        writer.write(put)
        heard = await reader.read()
        writer.close()
        recorder.close()
        server.close()
        return heard

    assert asyncio.run(talk()) == answer
    assert seen[0] == put
    assert json.loads(seen[1]) == {"function": "F", "action": "unsigned:PUT /b/k", "resource": "*"}


def test_an_endpoint_out_of_reach_is_out_of_reach_through_a_recorder_too(tmp_path):
    async def talk():
        recorder = Recorder("F", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, tmp_path / "calls.jsonl")
        await recorder.open()
        port = int(recorder.variables["AWS_ENDPOINT_URL"].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
            recorder.close()

    assert asyncio.run(talk()) == b""
