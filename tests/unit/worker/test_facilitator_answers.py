"""What a facilitator's and a node's answers mean to a seeker, and what of them the operator reads."""

from dataclasses import replace

import pytest

from local.gateway.held_port import held_port
from piecework.worker.errors import WorkerError
from piecework.worker.payment.facilitator import HttpFacilitator
from tests.support.http_servers import cut, hang, serving
from tests.support.quiet import QuietLog
from tests.support.worker.payments import SEEKER, a_payment, some_terms

TERMS = some_terms()
PAYMENT = a_payment()
REFUSED, SILENT, NO_VERDICT = "refused the request", "cannot be reached", "gave no verdict"
CDP_REFUSAL = {
    "errorType": "invalid_request",
    "errorMessage": "'paymentPayload' is invalid: must match [x402V2]",
}

# How `/verify` is answered, what the seeker reads, and the operator's line.
TROUBLE = [
    ((400, CDP_REFUSAL), REFUSED, {"status": 400, "reason": "invalid_request"}),
    ((401, {"error": "unauthorized"}), REFUSED, {"status": 401, "reason": "unauthorized"}),
    ((403, b"<html>forbidden</html>"), REFUSED, {"status": 403}),
    ((404, {"message": "no such path"}), REFUSED, {"status": 404}),
    ((429, {"error": {"code": 429, "message": "slow down"}}), REFUSED, {"status": 429, "reason": "429"}),
    (
        (500, {"isValid": False, "invalidReason": "unexpected_verify_error"}),
        NO_VERDICT,
        {"status": 500, "reason": "unexpected_verify_error"},
    ),
    (
        (502, {"isValid": False, "invalidReason": "internal_error"}),
        NO_VERDICT,
        {"status": 502, "reason": "internal_error"},
    ),
    ((500, {"isValid": False}), NO_VERDICT, {"status": 500}),
    *(
        (
            (status, {"isValid": False, "invalidReason": "too_many_requests"}),
            REFUSED,
            {"status": status, "reason": "too_many_requests"},
        )
        for status in (401, 403, 408, 429)
    ),
    ((503, b""), NO_VERDICT, {"status": 503}),
    ((200, {"valid": True}), NO_VERDICT, {"status": 200, "reason": "no_verdict_in_verify"}),
]


@pytest.mark.parametrize(("answer", "told", "_"), TROUBLE)
def test_a_seeker_reads_whether_the_provider_refused_or_failed(answer, told, _):
    with serving(answer) as server, pytest.raises(WorkerError) as caught:
        HttpFacilitator(server.url).verify(PAYMENT, TERMS)

    assert (caught.value.status, caught.value.code) == (503, "PAYMENT_PROVIDER_UNAVAILABLE")
    assert told in caught.value.message and "nothing was charged" in caught.value.message


@pytest.mark.parametrize(("answer", "_", "facts"), TROUBLE)
def test_the_operator_reads_status_and_reason(answer, _, facts):
    log = QuietLog()
    with serving(answer) as server, pytest.raises(WorkerError):
        HttpFacilitator(server.url, warn=log.warning).verify(PAYMENT, TERMS)

    assert log.lines == [("outgoing_call_failed", {"to": "facilitator", **facts})]


def test_its_own_trouble_is_no_verdict_whatever_the_status():
    with serving((200, {"isValid": False, "invalidReason": "unexpected_error"})) as server, pytest.raises(WorkerError):
        HttpFacilitator(server.url).verify(PAYMENT, TERMS)


def test_a_worker_that_has_no_credentials_says_so_in_its_log():
    from piecework.worker.payment.facilitator import CredentialsMissing

    def none(method, url):
        raise CredentialsMissing("none")

    log = QuietLog()
    with serving((200, {})) as server, pytest.raises(WorkerError):
        HttpFacilitator(server.url, none, warn=log.warning).verify(PAYMENT, TERMS)

    assert log.lines == [("outgoing_call_failed", {"to": "facilitator", "reason": "CredentialsMissing", "sent": False})]


@pytest.mark.parametrize("script", [cut, hang])
def test_a_provider_that_does_not_answer_cannot_be_reached(script):
    with serving(script) as server, pytest.raises(WorkerError) as caught:
        HttpFacilitator(server.url, verify_seconds=0.3).verify(PAYMENT, TERMS)

    assert SILENT in caught.value.message


def test_a_provider_that_cannot_be_connected_to_cannot_be_reached():
    with held_port() as closed, pytest.raises(WorkerError) as caught:
        HttpFacilitator(f"http://127.0.0.1:{closed}").supported()

    assert SILENT in caught.value.message


@pytest.mark.parametrize("status", [200, 400, 402, 500])
@pytest.mark.parametrize(
    "reason", ["insufficient_funds", "invalid_exact_evm_nonce_already_used", "invalid_exact_evm_payload_signature"]
)
def test_a_known_refusal_is_a_verdict_whatever_its_status(status, reason):
    with serving((status, {"isValid": False, "invalidReason": reason})) as server:
        verdict = HttpFacilitator(server.url).verify(PAYMENT, TERMS)

    assert (verdict.is_valid, verdict.reason) == (False, reason)


def test_the_clients_own_unsigned_resource_is_never_forwarded():
    theirs = {"url": "https://evil.example/" + "x" * 3_000, "description": "d" * 3_000}
    document = {**PAYMENT.document, "resource": theirs, "extensions": {"id": {"info": 1}}}
    with serving((200, {"isValid": True, "payer": SEEKER, "success": False})) as server:
        facilitator = HttpFacilitator(server.url)
        facilitator.verify(replace(PAYMENT, document=document), TERMS)
        facilitator.settle(replace(PAYMENT, document=document), TERMS, 5)

    verified, settled = (question["paymentPayload"] for _, _, _, question in server.seen)
    assert verified == settled  # the identical payload
    assert verified["resource"]["url"] == "https://w.example/hire/execute"
    assert verified["resource"]["description"] == "HIRE contract ctr_demo01"
    assert (verified["payload"], verified["extensions"]) == (PAYMENT.document["payload"], document["extensions"])


def test_a_version_1_payment_is_forwarded_as_it_is():
    payment = a_payment(version=1)
    with serving((200, {"isValid": True})) as server:
        HttpFacilitator(server.url).verify(payment, TERMS)

    assert server.seen[0][3]["paymentPayload"] == payment.document
