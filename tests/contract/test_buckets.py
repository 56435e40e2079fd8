"""One contract for the evidence and overflow stores, held against the fakes and against S3 on the embedded AWS."""

from uuid import uuid4

import pytest

from piecework.aws.bucket import EvidenceBucket, OverflowBucket
from piecework.durable.artifacts import Served, artifact_token, keep, serve
from piecework.errors import NotFound
from tests.support.fakes import FakeEvidence, FakeOverflow
from tests.support.lost_answers import LostAnswers

KINDS = ("fake", "s3", "lost answers", "under way")


def client_of(kind: str, aws):
    """A client of S3: plain, or one that repeats every write, where wanted while the first try is still under way."""
    client = aws.client("s3")
    return client if kind == "s3" else LostAnswers(client, conflicts=3 if kind == "under way" else 0)


def store_of(request, fake, adapter):
    """The store of the kind that the test is run on; an adapter gets a bucket of its own."""
    if request.param == "fake":
        return fake()
    aws = request.getfixturevalue("embedded_aws")
    client, bucket = client_of(request.param, aws), aws.new_bucket()
    return adapter(lambda: client, bucket)


@pytest.fixture(params=KINDS)
def evidence(request):
    return store_of(request, FakeEvidence, EvidenceBucket)


@pytest.fixture(params=KINDS)
def overflow(request):
    return store_of(request, FakeOverflow, OverflowBucket)


class TestEvidenceStore:
    def test_bytes_come_back_as_they_went_in(self, evidence):
        kept = keep(evidence, b"\x00\xffbytes", "image/png", artifact_token())
        _, _, digest, token = kept.path.split("/")

        assert serve(evidence, digest, token) == Served(b"\x00\xffbytes", "image/png")
        assert kept.size_bytes == 7 and kept.digest == digest

    def test_another_token_opens_nothing(self, evidence):
        kept = keep(evidence, b"secret", "text/plain", artifact_token())

        with pytest.raises(NotFound):
            serve(evidence, kept.digest, artifact_token())

    @pytest.mark.parametrize(
        ("digest", "token"),
        [("../results", "x" * 22), ("a" * 64, "../../x"), ("A" * 64, "x" * 22), ("", ""), ("a" * 64, "x" * 23)],
    )
    def test_malformed_addresses_are_not_looked_up(self, evidence, digest, token):
        with pytest.raises(NotFound):
            serve(evidence, digest, token)

    def test_what_was_written_first_stands(self, evidence):
        digest, token = "a" * 64, artifact_token()
        evidence.put(digest, token, b"first", "text/plain")
        evidence.put(digest, token, b"second", "text/plain")

        assert evidence.read(digest, token).data == b"first"


class TestOverflow:
    def test_a_result_comes_back_as_it_went_in(self, overflow):
        pointer = f"results/{uuid4().hex}/t"
        overflow.put(pointer, b"x" * 100_000)

        assert overflow.get(pointer) == b"x" * 100_000

    def test_what_was_written_first_stands(self, overflow):
        pointer = f"results/{uuid4().hex}/t"
        overflow.put(pointer, b"first")
        overflow.put(pointer, b"second")

        assert overflow.get(pointer) == b"first"


def tags_of(client, bucket, key):
    return {tag["Key"]: tag["Value"] for tag in client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]}


def test_what_is_kept_says_how_long_it_was_promised(embedded_aws):
    import hashlib

    from piecework.aws.bucket import EvidenceBucket, OverflowBucket
    from piecework.worker.store.deliverables_bucket import DeliverablesBucket

    client, bucket = embedded_aws.client("s3"), embedded_aws.new_bucket()
    key = "arn:aws:kms:us-east-1:000000000000:key/local"
    digest = hashlib.sha256(b"x").digest()
    DeliverablesBucket(lambda: client, bucket, key=key, keep_days=30).put(
        "deliverables/a", b"x", digest, "text/plain", ""
    )
    OverflowBucket(lambda: client, bucket, keep_days=7).put("work/a", b"{}")
    OverflowBucket(lambda: client, bucket).put("results/a", b"{}")
    EvidenceBucket(lambda: client, bucket, keep_days=1).put("a" * 64, "t", b"x", "text/plain")

    assert tags_of(client, bucket, "deliverables/a") == {"keep-days": "30"}
    assert tags_of(client, bucket, "work/a") == {"keep-days": "7"}
    assert tags_of(client, bucket, "results/a") == {}
    assert tags_of(client, bucket, f"evidence/{'a' * 64}/t") == {"keep-days": "1"}
