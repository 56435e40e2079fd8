"""Our transport against answers that aim at it, and writes whose answers are lost."""

import json
import threading
import time
from base64 import b64encode
from email.utils import formatdate

import pytest

from piecework.aws.table import Table
from piecework.aws.transport.credentials import Credentials
from piecework.aws.transport.endpoints import origin_of
from piecework.aws.transport.failures import NoAnswer, NotConfigured, ServiceRefused
from piecework.errors import Unavailable
from tests.support.misbehaving import CLOSE, HANG, RESET, answer, misbehaving
from tests.support.transport import KEYS, READ_SECONDS, SILENT_SECONDS, Here, refused

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
KEY = {"pk": {"S": "p"}}
PUT = {"TableName": "t", "Item": KEY, "ConditionExpression": "attribute_not_exists(pk)"}
OBJECT = {"Bucket": "bucket", "Key": "a/b"}
OK = answer(b"{}")
PAGE = answer(b"<ListBucketResult></ListBucketResult>")

OPERATIONS = {  # each with an answer that ends it
    "get_item": ("dynamodb", {"TableName": "t", "Key": KEY}, OK),
    "batch_get_item": ("dynamodb", {"RequestItems": {"t": {"Keys": [KEY]}}}, OK),
    "query": ("dynamodb", {"TableName": "t", "KeyConditionExpression": "pk = :pk"}, OK),
    "put_item": ("dynamodb", PUT, OK),
    "update_item": ("dynamodb", {"TableName": "t", "Key": KEY, "UpdateExpression": "SET a = :a"}, OK),
    "delete_item": ("dynamodb", {"TableName": "t", "Key": KEY}, OK),
    "batch_write_item": ("dynamodb", {"RequestItems": {"t": [{"PutRequest": {"Item": KEY}}]}}, OK),
    "transact_write_items": ("dynamodb", {"TransactItems": [{"Put": PUT}]}, OK),
    "send_message": ("sqs", {"QueueUrl": "q", "MessageBody": "m"}, OK),
    "send_message_batch": ("sqs", {"QueueUrl": "q", "Entries": [{"Id": "0", "MessageBody": "m"}]}, OK),
    "receive_message": ("sqs", {"QueueUrl": "q"}, OK),
    "delete_message": ("sqs", {"QueueUrl": "q", "ReceiptHandle": "r"}, OK),
    "get_queue_attributes": ("sqs", {"QueueUrl": "q", "AttributeNames": ["All"]}, OK),
    "get_metric_data": ("cloudwatch", {"MetricDataQueries": []}, OK),
    "get_secret_value": ("secrets", {"SecretId": "s"}, OK),
    "get_parameter": ("ssm", {"Name": "p"}, OK),
    "put_object": ("s3", {**OBJECT, "Body": b"body", "IfNoneMatch": "*"}, OK),
    "get_object": ("s3", OBJECT, OK),
    "head_object": ("s3", OBJECT, HEAD + b"Content-Length: 5\r\n\r\n"),
    "delete_object": ("s3", OBJECT, OK),
    "list_objects_v2": ("s3", {"Bucket": "bucket", "Prefix": "p/"}, PAGE),
}

HOSTILE: dict[str, bytes | list[bytes | float]] = {
    "a length of 5000 digits": HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n{}",
    "a sum of 5000 digits": answer(b"{}", 200, "x-amz-crc32: " + "9" * 5_000),
    "a sum that is not a number": answer(b"{}", 200, "x-amz-crc32: none"),
    "a head that ends beyond its limit": HEAD + b"a:b\r\n" * 15_000 + b"Content-Length: 2\r\n\r\n{}",
    "trailers without an end": [CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 2_000, HANG],
    "JSON in 20000 lists": answer(b"[" * 20_000),
    "nothing": answer(b""),
    "a list": answer(b"[]"),
    "null": answer(b"null"),
    "a text": answer(b'"{}"'),
}


class TestAnswersThatAimAtUs:
    @pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
    def test_one_is_no_answer_and_is_asked_for_again(self, hostile):
        with misbehaving(hostile, answer(b'{"Item":{}}')) as server:
            here = Here(server, read_seconds=SILENT_SECONDS if HANG in hostile else READ_SECONDS)
            assert here.get() == {"Item": {}}
        assert len(server.requests) == 2 and len(here.pauses) == 1

    @pytest.mark.parametrize(
        "endless",
        [
            [CHUNKED, *[b"400\r\n" + b"x" * 1024 + b"\r\n"] * 20],
            [CHUNKED, b"7fffffff\r\n" + b"x" * 20_000],
            [HEAD + b"\r\n", b"x" * 20_000],
            [HEAD + b"Content-Length: 20000\r\n\r\n", b"x" * 20_000],
        ],
    )
    def test_an_endless_body_is_left_at_the_limit(self, endless):
        with misbehaving(endless) as server, pytest.raises(NoAnswer, match="over 10000 bytes"):
            Here(server, limit=10_000).get()

    @pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\na: ", CHUNKED, CHUNKED + b"2;", HEAD + b"\r\n"])
    def test_whatever_drips_has_an_end(self, beginning):
        drip = [beginning, *[each for _ in range(40) for each in (b"1", 0.1)]]
        with misbehaving(drip) as server, pytest.raises(NoAnswer, match="TimeoutError"):
            Here(server, read_seconds=SILENT_SECONDS).get()
        assert len(server.requests) == 3

    def test_an_interim_answer_before_an_error_is_passed_over(self):
        interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        with misbehaving(interim + refused("ValidationException")) as server, pytest.raises(ServiceRefused) as told:
            Here(server).get()
        assert told.value.code == "ValidationException"

    @pytest.mark.parametrize(
        "url",
        [
            *("http://host\r\nX-Evil: 1/", "http://host/\r\nX-Evil: 1", "http://ho st/", "http://host/a b"),
            *("http://host:99999/", "http://host:x/", "http://a..b/", f"http://{'a' * 64}/", "http://hóst/"),
            *("http://user@host/", "http://host?x", "http:///", "https://.host/"),
        ],
    )
    def test_an_endpoint_that_no_request_can_name_is_said(self, url):
        with pytest.raises(NotConfigured):
            origin_of(url)


class TestLostAnswers:
    @pytest.mark.parametrize("lost", [CLOSE, RESET, [b"HTTP/1.1 200 OK\r\nContent-Le", CLOSE]])
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_every_operation_is_sent_again_as_it_was_over_a_new_connection(self, operation, lost):
        service, given, good = OPERATIONS[operation]
        with misbehaving(good, lost, good) as server:
            call = getattr(getattr(Here(server), service), operation)
            call(**given)
            call(**given)

        _, first, second = server.requests
        assert (first.connection, second.connection) == (1, 2)
        assert first.body == second.body and first.head.split("\r\n")[0] == second.head.split("\r\n")[0]
        for name in ("if-none-match", "x-amz-target", "amz-sdk-invocation-id"):
            assert first.header(name) == second.header(name)

    def test_a_write_whose_answer_was_lost_is_known_by_the_row_that_it_left(self):
        row = {"pk": {"S": "p"}, "write": {"S": "w1"}}
        failed = refused("ConditionalCheckFailedException", Item=row)
        with misbehaving(CLOSE, failed, failed) as server:
            table = Table(Here(server).dynamodb, "t", "the table")
            assert table.put({"pk": "p", "write": "w1"}, "attribute_not_exists(pk)").done
            assert not table.put({"pk": "p", "write": "w2"}, "attribute_not_exists(pk)").done

    def test_what_batches_leave_over_is_asked_for_again_alone(self):
        one, two = ({"PutRequest": {"Item": {"pk": {"S": name}}}} for name in "ab")
        left = answer(json.dumps({"UnprocessedItems": {"t": [two]}}).encode())
        with misbehaving(left, OK) as server:
            Table(Here(server).dynamodb, "t", "the table", lambda _: None).put_all([{"pk": "a"}, {"pk": "b"}])
        sent = [json.loads(each.body)["RequestItems"]["t"] for each in server.requests]
        assert sent == [[one, two], [two]]

    def test_keys_that_a_batch_read_leaves_over_are_read_again(self):
        left = {"Responses": {"t": []}, "UnprocessedKeys": {"t": {"Keys": [KEY]}}}
        found = {"Responses": {"t": [KEY]}}
        with misbehaving(*(answer(json.dumps(each).encode()) for each in (left, found))) as server:
            table = Table(Here(server).dynamodb, "t", "the table", lambda _: None)
            assert table.find([("p",)]) == {("p",): {"pk": "p"}}

    def test_a_cancelled_transaction_says_which_condition_failed(self):
        reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]
        with misbehaving(refused("TransactionCanceledException", CancellationReasons=reasons)) as server:
            with pytest.raises(ServiceRefused) as told:
                Here(server).dynamodb.transact_write_items(TransactItems=[])
            assert len(server.requests) == 1
        assert told.value.answer["CancellationReasons"] == reasons

    def test_a_queue_that_did_not_say_what_it_took_took_nothing(self):
        from piecework.aws.queues import Queue

        with misbehaving(answer(b"")) as server, pytest.raises(Unavailable):
            Queue(lambda: Here(server).sqs, "q").send_all([{"a": 1}])


def keys_that_end(seconds: float, name: str = "ASIA1") -> bytes:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    return answer(json.dumps({"AccessKeyId": name, "SecretAccessKey": "s", "Token": "t", "Expiration": ends}).encode())


class TestCredentials:
    def test_others_go_on_with_keys_that_still_last_while_one_renews_them(self):
        with misbehaving(keys_that_end(800), HANG) as server:
            env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/"}
            credentials = Credentials(env)
            credentials.keys()
            renewing = threading.Thread(target=credentials.keys)
            renewing.start()
            while len(server.requests) < 2:
                time.sleep(0.01)

            assert credentials.keys().id == "ASIA1" and renewing.is_alive() and len(server.requests) == 2
            server.close()
            renewing.join()

    @pytest.mark.parametrize(
        "odd", [{"AccessKeyId": None}, {"SecretAccessKey": 3}, {"Token": 3}, {"Expiration": 5}, {"Expiration": "soon"}]
    )
    def test_keys_that_are_no_texts_are_not_signed_with(self, odd):
        given = {"AccessKeyId": "A", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"} | odd
        with misbehaving(answer(json.dumps(given).encode())) as server, pytest.raises(NoAnswer, match="something else"):
            Credentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/"}).keys()

    def test_keys_that_end_between_two_tries_are_renewed_for_the_second(self):
        """The first answer is lost; the repetition meets the end of the keys, and the third request is the same."""
        lost = (CLOSE, refused("ExpiredTokenException"), OK)
        with misbehaving(*lost) as server, misbehaving(keys_that_end(3_600), keys_that_end(3_600, "ASIA2")) as keys:
            env = {"AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{keys.url}/"}
            Here(server, **env).dynamodb.transact_write_items(TransactItems=[])

        used = [str(each.header("authorization")).split("Credential=")[1].split("/")[0] for each in server.requests]
        assert used == ["ASIA1", "ASIA1", "ASIA2"]
        assert len({each.body for each in server.requests}) == 1


class TestS3:
    @pytest.mark.parametrize("operation", ["get_object", "head_object", "delete_object", "put_object"])
    def test_a_request_without_a_key_is_not_one_about_the_bucket(self, operation):
        more = {"Body": b""} if operation == "put_object" else {}
        with misbehaving(OK) as server, pytest.raises(NotConfigured, match="key"):
            getattr(Here(server).s3, operation)(Bucket="bucket", Key="", **more)
        assert server.requests == []

    def test_a_look_at_an_object_with_a_wrong_clock_does_not_find_it_forbidden(self):
        """An answer to HEAD has no body, so S3 cannot name what was wrong."""
        now = time.time()
        wrong = HEAD.replace(b"200", b"403") + f"Date: {formatdate(now, usegmt=True)}\r\n\r\n".encode()
        with misbehaving(wrong, answer(b"")) as server:
            Here(server, now=lambda: now - 3_000).s3.head_object(**OBJECT)
        assert len(server.requests) == 2

    @pytest.mark.parametrize("status", [301, 307, 400])
    def test_a_write_to_a_bucket_elsewhere_goes_there_once_and_links_lead_there(self, status):
        moved = answer(b"", status, "x-amz-bucket-region: us-west-2")
        with misbehaving(moved, OK) as server:
            s3 = Here(server).s3
            s3.put_object(**OBJECT, Body=b"body", IfNoneMatch="*")
            link = s3.generate_presigned_url("get_object", Params=OBJECT, ExpiresIn=60)
        first, second = server.requests
        assert "/us-west-2/s3/" in str(second.header("authorization")) and second.header("if-none-match") == "*"
        assert first.body == second.body == b"body" and "us-west-2%2Fs3" in link

    @pytest.mark.parametrize(
        ("key", "path"),
        [
            ("a b+c", "a%20b%2Bc"),
            ("ü/😀", "%C3%BC/%F0%9F%98%80"),
            ("../..//x/./", "../..//x/./"),
            ("a?b#c%2F&=", "a%3Fb%23c%252F%26%3D"),
            ("a\r\nb", "a%0D%0Ab"),
        ],
    )
    def test_a_key_is_asked_for_as_it_is(self, key, path):
        with misbehaving(OK) as server:
            s3 = Here(server).s3
            s3.get_object(Bucket="bucket", Key=key)
            link = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key}, ExpiresIn=60)
        assert server.requests[0].head.split("\r\n")[0] == f"GET /bucket/{path} HTTP/1.1"
        assert f"/bucket/{path}?X-Amz" in link


class TestSecrets:
    def test_a_secret_of_bytes_is_read_as_text(self, monkeypatch):
        from piecework.aws import secrets

        told = {"SecretBinary": b64encode("tökens".encode()).decode()}
        with misbehaving(answer(json.dumps(told).encode())) as server:
            monkeypatch.setattr(secrets, "_clients", lambda: Here(server))
            monkeypatch.setattr(secrets, "_kept", {})
            assert secrets.secret_text("arn") == "tökens"
        assert json.loads(server.requests[0].body) == {"SecretId": "arn"}  # the stage that is current

    @pytest.mark.parametrize("told", [{}, {"SecretBinary": "no base64"}, {"SecretBinary": "/w=="}])
    def test_a_secret_without_a_text_is_out_of_reach(self, told, monkeypatch):
        from piecework.aws import secrets

        with misbehaving(answer(json.dumps(told).encode())) as server:
            monkeypatch.setattr(secrets, "_clients", lambda: Here(server))
            with pytest.raises(Unavailable):
                secrets.secret_text("arn of none")

    @pytest.mark.parametrize("later", [61, -3_600])
    def test_a_secret_is_read_again_after_a_freeze_or_when_the_clock_was_set_back(self, later, monkeypatch):
        from piecework.aws import secrets

        moment = [10_000.0]
        texts = (answer(json.dumps({"SecretString": text}).encode()) for text in ("old", "new"))
        with misbehaving(*texts) as server:
            here = Here(server)
            monkeypatch.setattr(secrets, "_clients", lambda: here)
            monkeypatch.setattr(secrets, "_kept", {})
            monkeypatch.setattr(secrets, "time", lambda: moment[0], raising=False)
            assert [secrets.secret_text("arn"), secrets.secret_text("arn")] == ["old", "old"]
            moment[0] += later
            assert secrets.secret_text("arn") == "new"


def test_a_process_that_was_forked_opens_connections_of_its_own(monkeypatch):
    """Two processes that write to one connection would read each other's answers."""
    with misbehaving(OK) as server:
        here = Here(server)
        here.get()
        monkeypatch.setattr("piecework.aws.transport.connections.getpid", lambda: -1, raising=False)
        here.get()
        here.get()
        monkeypatch.undo()
        here.get()
    assert [each.connection for each in server.requests] == [1, 2, 2, 1]
    assert KEYS["AWS_ACCESS_KEY_ID"] in str(server.requests[0].header("authorization"))
