"""The worker door's edge: routes, headers, limits, rates and error bodies."""

import json
import re

import pytest

from piecework.edge.http import Request
from piecework.errors import Unavailable
from piecework.worker.contract.contracts import ContractConflict
from piecework.worker.door import CONTRACT_BYTES, error_response, json_body, json_response, serve, single_header
from piecework.worker.errors import CODES, SHARED_CODES, WorkerError
from piecework.worker.ids import CONTRACT_ID, TASK_ID, new_request_id, new_task_id
from piecework.worker.rates import Rate, Rates
from tests.support.worker.handlers import Context


class Quiet:
    """Telemetry that tells nobody, and remembers bugs."""

    def __init__(self):
        self.bugs = []

    def outcome(self, name, facts, counts):
        pass

    def bug(self, name):
        self.bugs.append(name)


def an_event(method="POST", resource="/execute", body="{}", headers=None, source="10.0.0.1"):
    return {
        "httpMethod": method,
        "resource": resource,
        "path": resource,
        "multiValueHeaders": {"Content-Type": ["application/json"], **(headers or {})},
        "requestContext": {"identity": {"sourceIp": source}},
        "body": body,
    }


def a_request(**members) -> Request:
    return Request.from_event(an_event(**members), lambda: 1000)


def answered(event, respond=lambda request: json_response(200, {"ok": True}), telemetry=None, **options):
    return serve("test", respond, event, Context(), telemetry or Quiet(), **options)


def code_of(answer) -> str:
    return json.loads(answer["body"])["error"]["code"]


def test_every_answer_has_the_common_headers_and_an_id_of_ours():
    answer = answered(an_event(headers={"X-Amzn-Trace-Id": ["Root=1-aaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbb"]}))

    common = {"Content-Type", "Cache-Control", "X-Request-Id"}
    assert set(answer["headers"]) - {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"} == common
    assert answer["headers"]["Content-Type"] == "application/json; charset=utf-8"
    assert answer["headers"]["Cache-Control"] == "no-store"
    assert re.fullmatch(r"[0-9A-Z]{26}", answer["headers"]["X-Request-Id"])


def test_what_is_not_served_is_told_in_the_doors_own_body():
    unknown, wrong = answered(an_event(resource="/nothing")), answered(an_event(method="GET"))
    slash = answered({**an_event(), "path": "/execute/"})

    assert (unknown["statusCode"], code_of(unknown)) == (slash["statusCode"], code_of(slash)) == (404, "NOT_FOUND")
    assert (wrong["statusCode"], code_of(wrong), wrong["headers"]["Allow"]) == (405, "METHOD_NOT_ALLOWED", "POST")


def test_a_bug_is_logged_and_answered_without_its_text():
    telemetry = Quiet()

    def fail(request):
        raise RuntimeError("secret")

    answer = answered(an_event(), fail, telemetry)

    assert telemetry.bugs == ["test"]
    assert answer["statusCode"] == 500 and code_of(answer) == "INTERNAL_ERROR" and "secret" not in answer["body"]


def test_a_store_out_of_reach_is_our_trouble_and_may_be_tried_again():
    body = json.loads(error_response(Unavailable("the contracts table is out of reach")).body)

    assert body["error"]["code"] == "INTERNAL_ERROR" and body["error"]["retryable"] is True
    assert "table" not in body["error"]["message"]


def test_an_error_body_has_the_members_of_the_specification():
    error = WorkerError(
        "INVALID_INPUT",
        "brief\nmust be a string" + "x" * 600,
        {"field": "brief"},
        contract_id="ctr_a",
        retries_remaining=2,
    )

    answer = error_response(error)

    body = json.loads(answer.body)
    assert answer.status == 422 and body["status"] == "failed" and body["contract_id"] == "ctr_a"
    assert set(body["error"]) == {"code", "message", "details", "retryable", "retries_remaining"}
    assert body["error"]["message"].startswith("brief must") and len(body["error"]["message"]) == 500


def test_an_outcome_line_never_holds_a_message():
    facts = error_response(WorkerError("INVALID_INPUT", "what the seeker wrote", {"reason": "r", "field": "f"})).facts

    assert facts["code"] == "INVALID_INPUT" and facts["reason"] == "r" and "field" not in facts
    assert "what the seeker wrote" not in str(facts)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (an_event(headers={"Content-Type": ["text/plain"]}), 415),
        (an_event(headers={"Content-Type": ["application/json", "application/json"]}), 400),
        (an_event(body=" " * 262_143 + "{}"), 413),
        (an_event(body="[" * 33 + "]" * 33), 400),
        (an_event(body="[" * 1000 + "]" * 1000), 400),
        (an_event(body="{"), 400),
        (an_event(body="[" * 32 + "]" * 32), 200),
        (an_event(body=" " * 262_142 + "{}"), 200),
        (an_event(headers={"Content-Type": ["application/vnd.hire+json; charset=utf-8"]}), 200),
    ],
)
def test_bodies_are_bounded(event, status):
    assert answered(event, lambda request: json_response(200, json_body(request)))["statusCode"] == status


@pytest.mark.parametrize(("length", "status"), [(CONTRACT_BYTES, 200), (CONTRACT_BYTES + 1, 413)])
def test_a_contracts_body_is_bounded(length, status):
    event = an_event(body=" " * (length - 2) + "{}")

    assert (
        answered(event, lambda request: json_response(200, json_body(request, CONTRACT_BYTES)))["statusCode"] == status
    )
    assert CONTRACT_BYTES == 131_072


def test_a_header_sent_twice_is_refused():
    request = a_request(headers={"X-Contract-ID": ["ctr_a", "ctr_b"]})

    assert single_header(request, "x-absent") == ""
    with pytest.raises(WorkerError):
        single_header(request, "x-contract-id")


def test_every_code_that_shared_failures_become_is_known():
    assert set(SHARED_CODES.values()) <= set(CODES)
    assert ContractConflict().status == 409


def test_ids_have_enough_random_bits():
    made = {new_task_id() for _ in range(1000)}

    assert len(made) == 1000 and all(TASK_ID.fullmatch(one) for one in made)
    assert len(new_request_id()) == 26


@pytest.mark.parametrize(
    "text", ["", "ctr_", "ctr_" + "a" * 61, "ctr_ä", "../x", "ctr_a\r\nX-Evil: 1", "ctr_a\n", "CTR_a"]
)
def test_what_is_no_contract_id_is_none(text):
    assert not CONTRACT_ID.fullmatch(text)


def test_a_contract_that_asks_too_often_is_told_when_to_come_back():
    now = [100.0]
    rates = Rates(per_contract=Rate(2, 3), per_address=Rate(100, 100), clock=lambda: now[0])

    def ask(contract):
        def found(request):
            rates.count("", contract)
            return json_response(200, {"ok": True})

        return answered(an_event(headers={"X-Contract-ID": [contract]}), found, limit=rates.check)

    answers = [ask("ctr_a") for _ in range(4)]
    now[0] += 0.5

    assert [answer["statusCode"] for answer in answers] == [200, 200, 200, 429]
    assert code_of(answers[3]) == "RATE_LIMITED" and answers[3]["headers"]["Retry-After"] == "1"
    assert ask("ctr_a")["statusCode"] == ask("ctr_b")["statusCode"] == 200


def test_what_strangers_ask_with_a_contracts_id_counts_for_their_address_alone():
    rates = Rates(per_contract=Rate(1, 1), per_address=Rate(100, 100), clock=lambda: 5.0)

    def unknown(request):
        raise WorkerError("TASK_NOT_FOUND", "no such task")

    event = an_event(headers={"X-Contract-ID": ["ctr_a"]})
    statuses = [answered(event, unknown, limit=rates.check)["statusCode"] for _ in range(5)]

    assert statuses == [404] * 5


def test_an_address_that_asks_too_often_is_refused_whatever_it_asks_for():
    rates = Rates(per_address=Rate(1, 2), clock=lambda: 5.0)
    events = [an_event(headers={"X-Contract-ID": [f"ctr_{number}"]}) for number in range(3)]

    assert [answered(event, limit=rates.check)["statusCode"] for event in events] == [200, 200, 429]
    assert answered(an_event(source="10.0.0.2"), limit=rates.check)["statusCode"] == 200


def test_callers_that_were_quiet_longest_are_forgotten_first(monkeypatch):
    monkeypatch.setattr("piecework.worker.rates.MAX_BUCKETS", 2)
    rates = Rates(per_address=Rate(1, 1), clock=lambda: 5.0)
    for source in ("a", "b", "c"):
        answered(an_event(source=source), limit=rates.check)

    assert answered(an_event(source="c"), limit=rates.check)["statusCode"] == 429
    assert answered(an_event(source="a"), limit=rates.check)["statusCode"] == 200
