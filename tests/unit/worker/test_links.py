"""Links to deliverables: they lead to the bucket's own Region, and promise no more than the credentials that sign."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.session import Session

from piecework.worker.wiring import WorkerDoor

BUCKET = "piecework-b"
KEY = "deliverables/ctr_a/task_b/g1/lease/000"


@pytest.fixture
def lambda_like(monkeypatch):
    """The environment of a function: keys with a session token, and everything that its settings need."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    given = {
        "AWS_ACCESS_KEY_ID": "ASIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "PUBLIC_BASE_URL": "https://w.example",
        "WORKER_WALLETS": "0x1563915e194D8CfBA1943570603F7606A3115508",
        "WORKER_AGENT_ID": "agent_work01",
        "FACILITATOR_URL": "https://f.example",
        "BASE_RPC_URL": "https://rpc.example",
        "PIECEWORK_BUCKET": BUCKET,
        "URL_TTL_SECONDS": "43200",
    }
    tables = ("CONTRACTS_TABLE", "WORK_TABLE", "DUE_TABLE", "TASK_QUEUE_URL", "DUE_QUEUE_URL")
    for name, value in {**given, **{f"PIECEWORK_{name}": "x" for name in tables}}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def a_link():
    """A link as the hire function makes one."""
    return WorkerDoor().views.bodies.files.link(KEY)


def regions():
    session = Session()
    return [
        (partition, region)
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("s3", partition, allow_non_regional=False)
    ]


def test_links_lead_to_the_buckets_own_region_in_every_region_of_every_partition(lambda_like):
    session, strangers = Session(), []
    for partition, region in regions():
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            lambda_like.setenv(name, region)
        suffix = session.create_client("s3", region_name=region).meta.endpoint_url.partition(f"{region}.")[2]
        if urlsplit(a_link().url).netloc != f"{BUCKET}.s3.{region}.{suffix or 'amazonaws.com'}":
            strangers.append((partition, region, a_link().url))

    assert len(regions()) > 40 and strangers == []


def test_a_link_lives_no_longer_than_a_functions_own_credentials_may(lambda_like):
    link = a_link()

    expires = int(parse_qs(urlsplit(link.url).query)["X-Amz-Expires"][0])
    assert 0 < expires <= 900
    assert link.expires_at_ms - time.time() * 1000 <= 900_000


@contextmanager
def container_credentials(ends):
    """The endpoint that hands out a function's credentials where they say when they end."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            stated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
            keys = {"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "s", "Token": "t", "Expiration": stated}
            body = json.dumps(keys).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/credentials"
        finally:
            server.shutdown()


def test_a_link_ends_with_the_credentials_that_say_when_they_end(lambda_like):
    ends = time.time() + 2_400
    with container_credentials(ends) as url:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            lambda_like.delenv(name)
        lambda_like.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)

        link = a_link()

    assert 2_300_000 < link.expires_at_ms - time.time() * 1000 <= 2_400_000
    assert int(parse_qs(urlsplit(link.url).query)["X-Amz-Expires"][0]) <= 2_400


def test_a_users_own_keys_sign_for_as_long_as_the_operator_says(lambda_like):
    lambda_like.delenv("AWS_SESSION_TOKEN")

    assert int(parse_qs(urlsplit(a_link().url).query)["X-Amz-Expires"][0]) == 43_200
