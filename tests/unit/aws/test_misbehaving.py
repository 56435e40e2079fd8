"""Our transport against a server that misbehaves: what AWS's SDK would do for us is done."""

import datetime
import gzip
import ipaddress
import json
import ssl
import subprocess
import sys
import threading
import time
import zlib
from base64 import b64encode
from email.utils import formatdate

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from piecework.aws.attributes import plain
from piecework.aws.chosen import clients_of
from piecework.aws.clients import Clients
from piecework.aws.failing import aws_errors
from piecework.aws.through_botocore import BotocoreClients
from piecework.aws.transport import connections as transport
from piecework.aws.transport.connections import Connections, Limits
from piecework.aws.transport.dynamodb import DynamoDB
from piecework.aws.transport.failures import NoAnswer, NotConfigured, ServiceRefused
from piecework.aws.transport.retries import COST, COST_OF_SILENCE, TOKENS
from piecework.errors import SettingsError, Unavailable
from tests.support.misbehaving import CLOSE, HANG, RESET, Misbehaving, answer, misbehaving
from tests.support.transport import GET, KEYS, SILENT_SECONDS, Here, refused

OK = answer(b'{"Item":{"pk":{"S":"p"}}}')

BROKEN: dict[str, bytes | list[bytes | float]] = {
    "closed": CLOSE,
    "reset": RESET,
    "half a body": [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", CLOSE],
    "half a head": [b"HTTP/1.1 200 OK\r\nContent-Le", CLOSE],
    "half a chunk": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", CLOSE],
    "a chunk that is longer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}zz0\r\n\r\n",
    "a negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "an unknown coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a length in words": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a line without a colon": b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n\r\n",
    "a status in letters": b"HTTP/1.1 2x0 OK\r\n\r\n",
    "only interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 12,
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    "half of JSON": answer(b"{", 200),
    "a wrong sum": answer(b"{}", 200, "x-amz-crc32: 1"),
    "not gzip": answer(b"\x1f\x8bnot gzip", 200, "Content-Encoding: gzip"),
    "half of gzip": answer(gzip.compress(b"{}")[:-4], 200, "Content-Encoding: gzip"),
    "an unknown packing": answer(b"{}", 200, "Content-Encoding: br"),
    "503": answer(b"busy", 503),
    "500": answer(b"", 500),
    "502": answer(b"<html>502</html>", 502),
    "throttled": refused("ThrottlingException"),
    "too much": refused("ProvisionedThroughputExceededException"),
    "under way": refused("TransactionInProgressException"),
    "internal": refused("InternalServerError", 500),
    "429": answer(b"", 429),
}


class TestWhatIsSentAgain:
    @pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
    def test_a_broken_answer_is_asked_for_again_as_the_same_request(self, broken):
        with misbehaving(broken, OK) as server:
            here = Here(server)

            assert here.get() == {"Item": {"pk": {"S": "p"}}}

        first, second = server.requests
        assert first.body == second.body
        assert first.header("amz-sdk-invocation-id") == second.header("amz-sdk-invocation-id") is not None
        assert [each.header("amz-sdk-request") for each in server.requests] == ["attempt=1; max=3", "attempt=2; max=3"]
        assert len(here.pauses) == 1 and 0 <= here.pauses[0] <= 1

    @pytest.mark.parametrize("silent", [HANG, [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", HANG]])
    def test_silence_is_not_waited_for(self, silent):
        with misbehaving(silent, OK) as server:
            assert Here(server, read_seconds=SILENT_SECONDS).get()["Item"]

    def test_a_dripping_answer_has_an_end(self):
        drip = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[each for _ in range(40) for each in (b"x", 0.1)]]
        with misbehaving(drip) as server, pytest.raises(NoAnswer, match="TimeoutError"):
            Here(server, read_seconds=SILENT_SECONDS).get()
        assert len(server.requests) == 3

    def test_a_transaction_is_sent_again_with_its_token(self):
        with misbehaving(CLOSE, answer(b"{}")) as server:
            Here(server).dynamodb.transact_write_items(TransactItems=[])

        tokens = [json.loads(each.body)["ClientRequestToken"] for each in server.requests]
        assert len(tokens) == 2 and len(set(tokens)) == 1 and len(tokens[0]) <= 36

    def test_after_three_tries_it_is_over_and_the_last_words_are_told(self):
        with misbehaving(refused("ThrottlingException")) as server, pytest.raises(ServiceRefused) as told:
            Here(server).get()

        assert len(server.requests) == 3
        assert (told.value.code, told.value.request_id, told.value.retries) == ("ThrottlingException", "REQ1", 2)

    @pytest.mark.parametrize(
        "code", ["ValidationException", "AccessDeniedException", "ConditionalCheckFailedException"]
    )
    def test_what_no_repetition_mends_is_not_sent_again(self, code):
        with misbehaving(refused(code, Item={"pk": {"S": "other"}})) as server, pytest.raises(ServiceRefused) as told:
            Here(server).get()

        assert len(server.requests) == 1 and told.value.code == code and told.value.retries == 0
        assert told.value.answer["Item"] == {"pk": {"S": "other"}}

    def test_a_condition_that_fails_after_a_lost_answer_is_told_as_a_repeat(self):
        lost = (CLOSE, refused("ConditionalCheckFailedException"))
        with misbehaving(*lost) as server, pytest.raises(ServiceRefused) as told:
            Here(server).dynamodb.put_item(TableName="t", Item={})
        assert told.value.retries == 1

    def test_pauses_grow_and_are_drawn_at_random(self):
        with misbehaving(refused("ThrottlingException")) as server:
            here = Here(server)
            for _ in range(12):
                with pytest.raises(ServiceRefused):
                    here.get()

        assert all(pause <= 1 for pause in here.pauses[::2]) and all(pause <= 2 for pause in here.pauses[1::2])
        assert len(set(here.pauses)) == 24 and max(here.pauses[1::2]) > 1

    def test_an_outage_is_not_met_with_three_times_the_load(self):
        with misbehaving(answer(b"", 503)) as server:
            here = Here(server)
            for _ in range(TOKENS // COST // 2 + 50):
                with pytest.raises(ServiceRefused):
                    here.get()
            assert len(server.requests) == TOKENS // COST // 2 + 50 + TOKENS // COST
            server.answers[:] = [OK]
            before = len(server.requests)
            for _ in range(COST):
                here.get()
            server.answers[:] = [answer(b"", 503), OK]
            assert here.get() and len(server.requests) == before + COST + 2

    def test_silence_costs_more_of_the_budget(self):
        assert COST_OF_SILENCE > COST
        with misbehaving(HANG, OK) as server:
            here = Here(server, read_seconds=SILENT_SECONDS)
            here.get()
            assert here.caller._budget._left == TOKENS  # what the repetition took came back with the answer


class TestConnections:
    def test_a_connection_is_used_again(self):
        with misbehaving(OK) as server:
            here = Here(server)
            for _ in range(5):
                here.get()
        assert server.connections == 1

    def test_a_chunked_answer_leaves_the_connection_usable(self):
        chunked = (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\n{\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n"
        )
        with misbehaving(b"HTTP/1.1 100 Continue\r\n\r\n" + chunked) as server:
            here = Here(server)
            assert [here.get(), here.get()] == [{}, {}]
        assert server.connections == 1

    @pytest.mark.parametrize(
        "last",
        [
            answer(b"{}", 200, "Connection: close"),
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            [b"HTTP/1.1 200 OK\r\n\r\n{}", CLOSE],
            answer(b"{}") + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ],
    )
    def test_a_connection_that_said_its_last_is_not_used_again(self, last):
        with misbehaving(last, OK) as server:
            here = Here(server)
            assert here.get() == {}
            assert here.get()["Item"]
        assert server.connections == 2 and here.pauses == []

    def test_a_connection_that_died_while_it_waited_is_noticed_before_it_is_used(self):
        with misbehaving(OK) as server:
            here = Here(server)
            here.get()
            server.hang_up()
            time.sleep(0.05)
            here.get()
        assert len(server.requests) == 2 and here.pauses == []

    def test_a_connection_from_before_a_freeze_is_not_used(self):
        moment = [1_000.0]
        with misbehaving(OK) as server:
            connections = Connections(Limits(1, 1, 1_000), {}, now=lambda: moment[0])
            here = Here(server)
            here.caller.connections = connections
            here.get()
            moment[0] += transport.IDLE_SECONDS + 1
            here.get()
        assert server.connections == 2

    def test_many_threads_share_the_connections_without_mixing_answers(self):
        with misbehaving([0.02, OK]) as server:
            here, found = Here(server), []
            threads = [threading.Thread(target=lambda: found.append(here.get())) for _ in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            here.get()
        assert found == [{"Item": {"pk": {"S": "p"}}}] * 40 and server.connections <= 40

    def test_an_answer_over_the_limit_is_not_kept_in_memory(self):
        with misbehaving(answer(b"x" * 2_000)) as server, pytest.raises(NoAnswer, match="over 1000 bytes"):
            Here(server, limit=1_000).get()

    def test_a_small_answer_that_unpacks_to_a_huge_one_is_refused(self, monkeypatch):
        monkeypatch.setattr(DynamoDB, "answer_bytes", 1_000_000)
        bomb = answer(gzip.compress(b" " * 5_000_000 + b"{}"), 200, "Content-Encoding: gzip")
        with misbehaving(bomb) as server, pytest.raises(NoAnswer):
            Here(server).get()

    @pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
    def test_a_packed_answer_is_unpacked(self, pack):
        coding = "gzip" if pack is gzip.compress else "deflate"
        packed = pack(b'{"Item":{}}')
        line = f"x-amz-crc32: {zlib.crc32(packed)}"
        with misbehaving(answer(packed, 200, f"Content-Encoding: {coding}", line)) as server:
            assert Here(server).get() == {"Item": {}}

    def test_nobody_at_the_address_is_said(self):
        with misbehaving(OK) as server:
            here = Here(server)
        with pytest.raises(Unavailable), aws_errors("the table"):
            here.get()
        assert len(here.pauses) == 2

    def test_a_request_that_was_answered_before_it_was_sent_whole_is_read(self):
        early = answer(b"<Error><Code>EntityTooLarge</Code></Error>", 400, "Connection: close")
        with misbehaving([early, CLOSE]) as server, pytest.raises((ServiceRefused, NoAnswer)):
            Here(server).s3.put_object(Bucket="bucket", Key="k", Body=b"x" * 100)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate for localhost that no machine trusts, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    bundle, secret = folder / "bundle.pem", folder / "key.pem"
    bundle.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, plain, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle, secret)
    return context, str(bundle)


class TestCertificates:
    def test_a_stranger_is_not_sent_anything(self, authority):
        context, _ = authority
        with misbehaving(OK, tls=context) as server, pytest.raises(NoAnswer, match="SSLCertVerificationError"):
            Here(server).get()
        assert server.requests == []

    def test_the_bundle_of_the_environment_is_trusted(self, authority):
        context, bundle = authority
        with misbehaving(OK, tls=context) as server:
            here = Here(server, AWS_CA_BUNDLE=bundle)
            assert [here.get()["Item"], here.get()["Item"]]
        assert server.connections == 1

    def test_certificates_are_read_once_for_all_clients_and_by_nobody_who_needs_none(self, authority, monkeypatch):
        _, bundle = authority
        read = []

        def made(cafile):
            read.append(cafile)

        monkeypatch.setattr(transport, "_read", {})
        monkeypatch.setattr(ssl, "create_default_context", made)

        Clients({**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}).prepare()
        for _ in range(3):
            Clients({**KEYS, "AWS_CA_BUNDLE": bundle}).prepare()
        transport.trusted(bundle)

        assert read == [bundle]

    def test_a_process_that_ends_while_they_are_read_ends_in_order(self):
        """With a daemon thread, one of seven such processes died of a segmentation fault under Python 3.13."""
        code = "from piecework.aws.clients import Clients; Clients({'AWS_REGION': 'x'}).prepare()"
        running = [subprocess.Popen((sys.executable, "-c", code)) for _ in range(12)]

        assert {process.wait(30) for process in running} == {0}


class TestClocks:
    @pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "InvalidSignatureException", "SignatureDoesNotMatch"])
    def test_a_clock_that_is_off_is_set_by_what_aws_says(self, code):
        now = time.time()
        wrong = refused(code, 400, f"Date: {formatdate(now, usegmt=True)}")
        with misbehaving(wrong, OK) as server:
            here = Here(server, now=lambda: now - 3_000)
            here.get()
            here.get()

        dates = [each.header("x-amz-date") for each in server.requests]
        assert len(dates) == 3 and here.pauses == []
        assert dates[1] == dates[2] == time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(int(now)))

    def test_a_wrong_signature_at_the_right_time_is_not_sent_again(self):
        wrong = refused("SignatureDoesNotMatch", 403, f"Date: {formatdate(usegmt=True)}")
        with misbehaving(wrong) as server, pytest.raises(ServiceRefused):
            Here(server).get()
        assert len(server.requests) == 1


def keys_that_end(seconds: float, name: str = "ASIA1") -> bytes:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    return answer(json.dumps({"AccessKeyId": name, "SecretAccessKey": "s", "Token": "t", "Expiration": ends}).encode())


class TestCredentials:
    def container(self, server: Misbehaving, keys: Misbehaving, **more: str) -> Here:
        none = {"AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{keys.url}/v2/creds?x=y", **more}
        return Here(server, **none)

    def used(self, server: Misbehaving) -> list[str]:
        return [str(each.header("authorization")).split("Credential=")[1].split("/")[0] for each in server.requests]

    def test_keys_come_from_the_endpoint_of_the_container_and_are_kept(self):
        with misbehaving(OK) as server, misbehaving(keys_that_end(3_600)) as keys:
            here = self.container(server, keys, AWS_CONTAINER_AUTHORIZATION_TOKEN="Basic abc")
            here.get()
            here.get()

        assert self.used(server) == ["ASIA1", "ASIA1"] and len(keys.requests) == 1
        assert server.requests[0].header("x-amz-security-token") == "t"
        assert keys.requests[0].header("authorization") == "Basic abc"
        assert keys.requests[0].head.startswith("GET /v2/creds?x=y HTTP/1.1")

    def test_the_tokens_file_is_read_each_time(self, tmp_path):
        file = tmp_path / "token"
        file.write_text("one\n")
        with misbehaving(OK) as server, misbehaving(keys_that_end(60)) as keys:
            here = self.container(server, keys, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file))
            here.get()
            file.write_text("two\n")
            here.get()
        assert [each.header("authorization") for each in keys.requests] == ["one", "two"]

    def test_keys_are_renewed_before_they_end(self):
        with misbehaving(OK) as server, misbehaving(keys_that_end(500), keys_that_end(3_600, "ASIA2")) as keys:
            here = self.container(server, keys)
            for _ in range(3):
                here.get()
        assert self.used(server) == ["ASIA1", "ASIA2", "ASIA2"]

    def test_a_failed_renewal_leaves_keys_that_still_last(self):
        with misbehaving(OK) as server, misbehaving(keys_that_end(800), answer(b"", 500)) as keys:
            here = self.container(server, keys)
            here.get()
            here.get()
        assert self.used(server) == ["ASIA1", "ASIA1"]

    def test_a_failed_renewal_of_keys_about_to_end_is_told(self):
        with misbehaving(OK) as server, misbehaving(keys_that_end(30), answer(b"", 500)) as keys:
            here = self.container(server, keys)
            here.get()
            with pytest.raises(NoAnswer, match="credentials answered 500"):
                here.get()

    def test_keys_that_aws_calls_ended_are_asked_for_anew(self):
        ended = refused("ExpiredTokenException")
        with misbehaving(ended, OK) as server, misbehaving(keys_that_end(3_600), keys_that_end(3_600, "ASIA2")) as keys:
            here = self.container(server, keys)
            here.get()
        assert self.used(server) == ["ASIA1", "ASIA2"] and here.pauses == []

    def test_ended_keys_of_the_environment_are_not_sent_twice(self):
        with misbehaving(refused("ExpiredTokenException")) as server, pytest.raises(ServiceRefused):
            Here(server).get()
        assert len(server.requests) == 1

    def test_many_threads_ask_once(self):
        with misbehaving(OK) as server, misbehaving([0.1, keys_that_end(3_600)]) as keys:
            here = self.container(server, keys)
            threads = [threading.Thread(target=here.get) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(keys.requests) == 1

    @pytest.mark.parametrize(
        ("body", "said"),
        [(b"{}", "something else"), (b"[]", "something else"), (b"no", "something else")],
    )
    def test_an_endpoint_that_says_something_else_is_named(self, body, said):
        with misbehaving(OK) as server, misbehaving(answer(body)) as keys, pytest.raises(NoAnswer, match=said):
            self.container(server, keys).get()

    @pytest.mark.parametrize(
        "env",
        [
            {"AWS_ACCESS_KEY_ID": ""},
            {"AWS_SECRET_ACCESS_KEY": ""},
            {"AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://keys.example.com/"},
            {"AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "ftp://localhost/"},
            {
                "AWS_ACCESS_KEY_ID": "",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost/",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nX: y",
            },
        ],
    )
    def test_what_is_not_configured_is_said_and_nothing_is_sent(self, env):
        with misbehaving(OK) as server, pytest.raises(NotConfigured):
            Here(server, **env).get()
        assert server.requests == []

    def test_nothing_is_opened_before_the_first_request(self, monkeypatch):
        def refuse(*given, **named):
            raise AssertionError("a connection was opened")

        monkeypatch.setattr("socket.create_connection", refuse)
        monkeypatch.setattr("socket.getaddrinfo", refuse)
        clients = Clients({**KEYS, "AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost/"})
        assert clients.dynamodb and clients.s3 and clients.sqs and clients.secrets

    @pytest.mark.parametrize("region", ["", "eu central", "evil.example/"])
    def test_a_region_that_is_none_is_said(self, region):
        with pytest.raises(NotConfigured, match="region"):
            Clients({**KEYS, "AWS_REGION": region}).dynamodb.get_item(**GET)


class TestS3:
    def test_an_error_is_read_with_its_code_and_request_id(self):
        body = b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>gone</Message></Error>'
        with misbehaving(answer(body, 404, "x-amz-request-id: R1")) as server, pytest.raises(ServiceRefused) as told:
            Here(server).s3.get_object(Bucket="bucket", Key="k")
        assert (told.value.code, told.value.status, told.value.request_id) == ("NoSuchKey", 404, "R1")
        assert "gone" in str(told.value)

    @pytest.mark.parametrize("body", [b"", b"<html>", b"not xml"])
    def test_an_error_without_a_code_has_its_status(self, body):
        with misbehaving(answer(body, 403)) as server, pytest.raises(ServiceRefused) as told:
            Here(server).s3.get_object(Bucket="bucket", Key="k")
        assert told.value.code == "403"

    def test_a_head_is_read_without_a_body(self):
        nobody = b"HTTP/1.1 404 Not Found\r\nContent-Length: 500\r\n\r\n"
        with misbehaving(nobody, answer(b"", 200)) as server:
            here = Here(server)
            with pytest.raises(ServiceRefused) as told:
                here.s3.head_object(Bucket="bucket", Key="k")
            here.s3.delete_object(Bucket="bucket", Key="k")
        assert told.value.code == "404" and server.connections == 1

    def test_a_damaged_object_is_asked_for_again(self):
        good = b64encode(zlib.crc32(b"body").to_bytes(4, "big")).decode()
        lines = (f"x-amz-checksum-crc32: {good}", "Content-Type: text/plain")
        with misbehaving(answer(b"bodY", 200, *lines), answer(b"body", 200, *lines)) as server:
            found = Here(server).s3.get_object(Bucket="bucket", Key="k")
        assert found["Body"].read() == b"body" and found["ContentType"] == "text/plain"

    def test_an_objects_own_encoding_is_left_alone(self):
        with misbehaving(answer(gzip.compress(b"x"), 200, "Content-Encoding: gzip")) as server:
            found = Here(server).s3.get_object(Bucket="bucket", Key="k")
        assert gzip.decompress(found["Body"].read()) == b"x"

    def test_a_bucket_elsewhere_is_asked_where_it_is(self):
        moved = answer(b"<Error><Code>PermanentRedirect</Code></Error>", 301, "x-amz-bucket-region: us-west-2")
        with misbehaving(moved, answer(b"x"), answer(b"y")) as server:
            here = Here(server)
            assert here.s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"x"
            here.s3.get_object(Bucket="bucket", Key="k")
        regions = [str(each.header("authorization")).split("/")[2] for each in server.requests]
        assert regions == ["eu-central-1", "us-west-2", "us-west-2"]

    def test_a_header_cannot_be_split(self):
        with misbehaving(OK) as server, pytest.raises(NotConfigured, match="line break"):
            Here(server).s3.put_object(Bucket="bucket", Key="k", Body=b"", ContentType="a\r\nX-Evil: 1")
        assert server.requests == []

    def test_a_list_is_read_page_by_page(self):
        page = (
            b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>'
            b"<Contents><Key>a+b%2B%C3%BC</Key><Size>1</Size></Contents><Contents><Key>c</Key></Contents>"
            b"<NextContinuationToken>1+/=</NextContinuationToken></ListBucketResult>"
        )
        with misbehaving(answer(page)) as server:
            found = Here(server).s3.list_objects_v2(Bucket="bucket", Prefix="a")
        assert found == {"Contents": [{"Key": "a b+ü"}, {"Key": "c"}], "NextContinuationToken": "1+/="}


class TestTrace:
    TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1;Lineage=a87bd80c:1"

    def test_every_request_hands_the_trace_of_its_own_run_on(self):
        with misbehaving(answer(b"{}")) as server:
            here = Here(server, AWS_LAMBDA_FUNCTION_NAME="f", _X_AMZN_TRACE_ID=self.TRACE)
            here.sqs.send_message(QueueUrl="q", MessageBody="m")
            here.env["_X_AMZN_TRACE_ID"] = self.TRACE.replace(":1", ":2")
            here.sqs.send_message(QueueUrl="q", MessageBody="m")
        assert [each.header("x-amzn-trace-id") for each in server.requests] == [
            self.TRACE,
            self.TRACE.replace(":1", ":2"),
        ]

    def test_outside_of_lambda_there_is_none(self):
        with misbehaving(answer(b"{}")) as server:
            Here(server, _X_AMZN_TRACE_ID=self.TRACE).sqs.send_message(QueueUrl="q", MessageBody="m")
        assert server.requests[0].header("x-amzn-trace-id") is None

    def test_an_error_of_sqs_has_the_name_that_sdks_give_it(self):
        line = "x-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender"
        wrong = answer(b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}', 400, line)
        with misbehaving(wrong) as server, pytest.raises(ServiceRefused) as told:
            Here(server).sqs.send_message(QueueUrl="q", MessageBody="m")
        assert told.value.code == "AWS.SimpleQueueService.NonExistentQueue"


class TestTheSwitch:
    @pytest.mark.parametrize("env", [{"PIECEWORK_AWS": "botocore"}, {"HTTPS_PROXY": "http://127.0.0.1:9"}])
    def test_botocores_clients_are_made_where_they_are_asked_for_or_needed(self, env):
        assert isinstance(clients_of({**KEYS, **env}), BotocoreClients)

    def test_something_else_is_refused(self):
        with pytest.raises(SettingsError, match="own or botocore"):
            clients_of({**KEYS, "PIECEWORK_AWS": "boto"})

    @pytest.mark.parametrize(
        "env", [{}, {"PIECEWORK_AWS": ""}, {"PIECEWORK_AWS": "own"}, {"NO_PROXY": "*", "HTTPS_PROXY": ""}]
    )
    def test_else_our_own_are_made(self, env):
        assert type(clients_of({**KEYS, **env})) is Clients

    def test_what_botocore_raises_is_told_in_our_words(self, monkeypatch):
        for name, value in {**KEYS, "AWS_DEFAULT_REGION": "eu-central-1", "AWS_MAX_ATTEMPTS": "1"}.items():
            monkeypatch.setenv(name, value)
        wrong = refused("ConditionalCheckFailedException", Item={"pk": {"B": "AA=="}})
        with misbehaving(wrong) as server:
            client = BotocoreClients({**KEYS, "AWS_ENDPOINT_URL": server.url}).dynamodb
            with pytest.raises(ServiceRefused) as told:
                client.put_item(TableName="t", Item={"pk": {"S": "p"}})
            with pytest.raises(NotConfigured):
                client.put_item(TableName="t", Item=3)
        assert (told.value.code, told.value.status) == ("ConditionalCheckFailedException", 400)
        assert (told.value.request_id, told.value.retries) == ("REQ1", 0)
        assert plain(told.value.answer["Item"]) == {"pk": b"\0"}
