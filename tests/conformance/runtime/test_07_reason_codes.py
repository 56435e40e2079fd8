"""Runtime specification, sections 2.7, 4.1 (c), 7 and cases 41, 49, 50, 54: verdicts and what evidence does to them."""

import socket
import ssl
from contextlib import ExitStack

import pytest

from piecework.net.addresses import is_public
from piecework.net.fetching import Fetcher
from piecework.runtime.verify.fetch import EvidenceCheck, FetchEvidence
from piecework.runtime.verify.flow import Identity, verify
from piecework.runtime.verify.policies import BindingRules
from tests.support.runtime.verification import (
    KERNEL_HASHES,
    THRESHOLDS,
    Verifier,
    a_candidate,
    a_reference,
    a_verify_request,
    summary,
)
from tests.support.servers import BODY, CERTIFICATE, strange_server

MEMBERS = {
    "verification_status",
    "passed",
    "score",
    "reason_codes",
    "verifier_result_hash",
    "provider_family",
    "model_id",
}
OUTPUTS = ({}, {"check_summary": "ok"}, {"confidence": 0.5}, [], 5, None, {"a": "x" * 100})


def test_clean_pass_has_code_100(verifier):
    for policy_id in KERNEL_HASHES:
        for output in OUTPUTS:
            verdict = verifier.verdict(output, policy_id=policy_id, params={"min_confidence": 0.4, "max_len": 50})
            assert set(verdict) == MEMBERS
            assert verdict["passed"] is (verdict["verification_status"] == "passed")
            assert isinstance(verdict["score"], float)
            assert 0.0 <= verdict["score"] <= 1.0
            assert verdict["reason_codes"]
            assert not verdict["passed"] or verdict["reason_codes"] == [100]
            assert verdict["provider_family"].strip()
            assert verdict["model_id"].strip()


@pytest.mark.inside("starts a door that is cold, or is set otherwise")
def test_clean_pass_has_no_code_where_the_door_is_told_so():
    literal = Verifier(EMPTY_REASON_CODES_ON_PASS="true")
    assert literal.verdict({})["reason_codes"] == []
    assert literal.verdict(5)["reason_codes"] == [101]


class NoArtifacts:
    """A store that holds nothing."""

    def read(self, digest, token):
        return None


def judged(fetcher, *references, output=None, policy_id="vp.schema_only.v1", params=None):
    """Status, passed and codes with every reference fetched by `fetcher`."""
    check = EvidenceCheck(FetchEvidence.ALL, NoArtifacts(), fetcher.get).under("https://runtime.test")
    candidate = a_candidate({} if output is None else output, evidence_refs=list(references))
    request = a_verify_request(candidate=candidate, policy_id=policy_id, params=params or {})
    verdict = verify(request, BindingRules(), Identity("demo-family", "demo-model-1"), check)
    assert verdict.score == 0.0 or verdict.passed or verdict.verification_status == "failed"
    return verdict.verification_status, verdict.passed, list(verdict.reason_codes)


def loopback_fetcher(**changed):
    def resolve(host, port):
        if host == "unknown.test":
            raise socket.gaierror("unknown")
        return ["127.0.0.1"]

    settings = {"resolve": resolve, "allow": lambda address: str(address) == "127.0.0.1", "timeout_seconds": 5}
    return Fetcher(**{**settings, **changed})


def closed_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


@pytest.mark.inside("lets the door fetch from servers of the test's own")
def test_inconclusive_rules():
    unreachable, timeout, denied = (("inconclusive", False, [code]) for code in (200, 201, 202))
    mismatch = ("failed", False, [203])
    with ExitStack() as stack:
        server, secure = stack.enter_context(strange_server()), stack.enter_context(strange_server(secure=True))
        tls = ssl.create_default_context(cafile=str(CERTIFICATE))
        fetcher = loopback_fetcher(tls=tls, body_limit=1_000)
        impatient = loopback_fetcher(timeout_seconds=0.4)
        expected = {
            server.url("/ok"): ("passed", True, [100]),
            server.url("/chunked"): ("passed", True, [100]),
            secure.url("/ok"): ("passed", True, [100]),
            server.url("/other"): mismatch,
            f"http://refused.test:{closed_port()}/": unreachable,
            "http://unknown.test/": unreachable,
            server.url("/404"): unreachable,
            server.url("/500"): unreachable,
            server.url("/redirect"): unreachable,
            server.url("/big"): unreachable,
            server.url("/truncated"): unreachable,
            secure.url("/ok", "wrong-name.test"): unreachable,
            "artifact://reference/x": unreachable,
            "inline:0": unreachable,
            "file:///etc/hostname": unreachable,
            server.url("/401"): denied,
            server.url("/403"): denied,
        }
        for uri, verdict in expected.items():
            assert judged(fetcher, a_reference(uri, BODY)) == verdict, uri
        for path in ("/hang", "/drip", "/drip-headers"):
            assert judged(impatient, a_reference(server.url(path), BODY)) == timeout

        good, slow, other = (a_reference(server.url(path), BODY) for path in ("/ok", "/hang", "/other"))
        assert judged(fetcher, {**good, "size_bytes": 1}) == mismatch
        assert judged(impatient, slow, other, good) == mismatch
        assert judged(impatient, good, slow, a_reference(server.url("/401"))) == ("inconclusive", False, [201, 202])
        assert judged(fetcher, slow, output=5) == ("failed", False, [101])
        by_policy = judged(fetcher, slow, policy_id=THRESHOLDS, params={"min_confidence": 0.5})
        assert by_policy == ("failed", False, [100, 102])
        assert judged(fetcher, *[good] * 32, other) == ("passed", True, [100])


@pytest.mark.inside("lets the door fetch from servers of the test's own")
def test_ssrf_guard():
    with strange_server() as server:
        port = server.server_port
        names = {
            "metadata.test": ["169.254.169.254"],
            "loopback.test": ["127.0.0.1"],
            "mixed.test": ["1.1.1.1", "127.0.0.1"],
            "mapped.test": ["::ffff:127.0.0.1"],
            "nat64.test": ["64:ff9b::7f00:1"],
            "sixtofour.test": ["2002:7f00:1::"],
            "private.test": ["10.0.0.1"],
        }
        guarded = Fetcher(resolve=lambda host, at: names[host], allow=is_public, timeout_seconds=0.5)
        uris = [f"http://{name}:{port}/ok" for name in names] + [
            f"http://{host}:{port}/ok"
            for host in ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "0.0.0.0", "[::1]", "[::]")
        ]
        uris += [f"http://[::ffff:127.0.0.1]:{port}/ok", f"http://u:p@loopback.test:{port}/ok", "file:///etc/passwd"]
        uris += ["http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "gopher://loopback.test/"]
        for uri in uris:
            assert judged(guarded, a_reference(uri, BODY)) == ("inconclusive", False, [200]), uri

        deployed = Verifier(FETCH_EVIDENCE="all")
        for uri in (f"http://127.0.0.1:{port}/ok", f"http://localhost:{port}/ok", "http://169.254.169.254/"):
            verdict = deployed.verdict(candidate=a_candidate({}, evidence_refs=[a_reference(uri, BODY)]))
            assert (verdict["verification_status"], summary(verdict)) == ("inconclusive", (False, 0.0, [200]))
        redirecting = judged(loopback_fetcher(), a_reference(server.url("/redirect"), BODY))
        assert redirecting == ("inconclusive", False, [200])
        assert [path for path, _ in server.seen] == ["/redirect"]  # nothing else arrived, nothing was followed


def test_many_refs(verifier):
    references = [
        a_reference(f"artifact://reference/{number}", digest=f"sha256:{number:064x}") for number in range(450)
    ]

    assert set(verifier.verdict(candidate=a_candidate({}, evidence_refs=references))) == MEMBERS


@pytest.mark.inside("knows that the door fetches no evidence of others")
def test_many_refs_are_passed_over():
    references = [
        a_reference(f"https://elsewhere.test/{number}", digest=f"sha256:{number:064x}") for number in range(450)
    ]

    verdict = Verifier().verdict(candidate=a_candidate({}, evidence_refs=references))

    assert summary(verdict) == (True, 1.0, [100])
    off = Verifier(FETCH_EVIDENCE="off").verdict(candidate=a_candidate({}, evidence_refs=references))
    assert off == verdict
