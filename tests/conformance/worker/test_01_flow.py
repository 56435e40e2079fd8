"""Worker conformance, cases 1, 6, 8 to 12, 19 to 31, 50: who is asked, and who is refused and told."""

import base64
import json
import threading

import pytest

from tests.support.served import url_run
from tests.support.worker.payments import header
from tests.support.worker.stage import BODY


def test_unpaid_gets_402(stage):
    contract = stage.contract()

    answer = stage.post(contract)

    assert answer.status == 402
    asked = {name.lower(): value for name, value in answer.headers.items()}
    assert {name: value for name, value in asked.items() if name.startswith("x-payment")} == {
        "x-payment-address": contract.worker_wallet,
        "x-payment-amount": "5",
        "x-payment-currency": "USDC",
        "x-payment-network": contract.network.name,
    }
    required = json.loads(base64.b64decode(answer.headers["PAYMENT-REQUIRED"], validate=True))
    assert required["accepts"][0]["amount"] == "5000000" and required["resource"]["url"] == f"{stage.base}/execute"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.body["x402Version"] == 1 and answer.body["error"] == "payment required"
    assert answer.body["code"] == "PAYMENT_REQUIRED" and answer.body["contract_id"] == contract.contract_id
    assert stage.is_free(contract)


@pytest.mark.needs("FACILITATOR")
def test_unknown_contract(stage, stub):
    answer = stage.post("ctr_nobody", BODY, stage.pay(stage.contract()))

    assert answer.status == 404 and answer.body["error"]["code"] == "CONTRACT_NOT_FOUND"
    assert stub.calls == []


@pytest.mark.needs("FACILITATOR")
def test_invalid_input_before_payment(stage, stub):
    schema = {"type": "object", "required": ["brief"], "properties": {"brief": {"type": "string"}}}
    contract = stage.contract(task__input_schema=schema)

    for headers in ({}, stage.pay(contract)):
        answer = stage.post(contract, {"brief": 3}, headers)
        assert answer.status == 422
        assert answer.body["error"]["code"] == "INVALID_INPUT"
        assert answer.body["error"]["details"] == {
            "field": "brief",
            "path": "/brief",
            "expected": "string",
            "received": "integer",
        }
    assert stub.calls == [] and stage.is_free(contract)
    assert stage.post(contract).status == 402


@pytest.mark.needs("FACILITATOR")
def test_malformed_payment_header(stage, stub):
    contract = stage.contract()
    good = header(stage.payload(contract))
    without = stage.payload(contract)
    del without["payload"]["authorization"]

    for headers in (
        {"PAYMENT-SIGNATURE": ["***"]},
        {"PAYMENT-SIGNATURE": [header(b"not json")]},
        {"PAYMENT-SIGNATURE": [header(without)]},
        {"PAYMENT-SIGNATURE": [good], "X-PAYMENT": [good]},
        {"PAYMENT-SIGNATURE": [good, good]},
        {"PAYMENT-SIGNATURE": [f"{good},{good}"]},
    ):
        answer = stage.post(contract, BODY, headers)
        assert answer.status == 400 and answer.body["error"]["code"] == "PAYMENT_MALFORMED"
    assert stub.count("verify") == stub.count("settle") == 0


@pytest.mark.needs("FACILITATOR")
def test_huge_payment_header(stage, stub):
    answer = stage.post(stage.contract(), BODY, {"PAYMENT-SIGNATURE": ["A" * 9 * 1024]})

    assert answer.status == 400 and answer.body["error"]["code"] == "PAYMENT_MALFORMED" and stub.calls == []


def test_huge_body(stage):
    contract = stage.contract()

    assert stage.post(contract, b'"' + b"a" * 262_143 + b'"').status == 413
    assert stage.post(contract, b"[" * 1000 + b"]" * 1000).status == 400


def test_header_injection_contract_id(stage):
    odd = ("ctr_a\r\nX-Evil: 1", "ctr_ü")  # no client of HTTP sends these
    for evil in ("ctr_a%0d%0aX-Evil: 1", "ctr_" + "a" * 2048, "../x", *(() if url_run.url() else odd)):
        answer = stage.post(evil)
        assert answer.status == 400 and answer.body["error"]["code"] == "INVALID_REQUEST"
        assert evil not in answer.text and "X-Evil" not in str(answer.headers)
        assert url_run.url() or evil not in str(stage.telemetry.lines)


@pytest.mark.needs("FACILITATOR")
def test_a_payment_signed_for_another_token_is_refused_by_the_facilitator(stage):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, domain={"verifyingContract": "0x" + "2" * 40}))

    assert answer.status == 402 and stage.stub.count("verify") == 1 and stage.stub.count("settle") == 0


@pytest.mark.needs("FACILITATOR")
def test_wrong_domain_name(stage, stub):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, domain={"name": "USDC"}))

    assert answer.status == 402 and stub.count("verify") == 1 and stub.count("settle") == 0
    assert answer.body["code"] == "PAYMENT_INVALID"


@pytest.mark.needs("FACILITATOR")
def test_expired_authorization(stage):
    contract = stage.contract()
    soon = str(stage.clock() // 1000 + 3)

    answer = stage.post(contract, BODY, stage.pay(contract, validBefore=soon))

    assert answer.body["details"]["reason"].endswith("authorization_valid_before")


@pytest.mark.needs("FACILITATOR")
def test_future_authorization(stage):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, validAfter=str(stage.clock() // 1000 + 300)))

    assert answer.body["details"]["reason"].endswith("authorization_valid_after")


@pytest.mark.needs("FACILITATOR")
def test_window_too_short_for_task(stage):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, validBefore=str(stage.clock() // 1000 + 10)))

    assert answer.body["details"]["reason"].endswith("authorization_valid_before")


@pytest.mark.needs("FACILITATOR")
def test_signature_for_other_contracts_price(stage, stub):
    cheap, dear = stage.contract(terms__price__amount="1"), stage.contract()

    answer = stage.post(dear, BODY, stage.pay(cheap))

    assert answer.status == 402 and stub.count("settle") == 0


@pytest.mark.needs("FACILITATOR")
def test_replay_same_contract(stage):
    contract = stage.contract()
    payment = stage.pay(contract)
    first = stage.post(contract, BODY, payment)

    for headers in (payment, {}, stage.pay(contract), {"PAYMENT-SIGNATURE": ["***"]}):
        again = stage.post(contract, BODY, headers)
        assert again.status == 200 and again.receipt == first.receipt
        assert without_links(again.body) == without_links(first.body)
    assert stage.settles() == 1
    stage.ran(1)


def without_links(body):
    text = json.dumps(body)
    for item in body["deliverables"]:
        text = text.replace(item["url"], "").replace(item["expires_at"], "")
    return json.loads(text)


@pytest.mark.needs("FACILITATOR")
def test_replay_other_contract(stage):
    first, second = stage.contract(), stage.contract()
    payment = stage.pay(first)
    stage.post(first, BODY, payment)

    answer = stage.post(second, BODY, payment)

    assert answer.status == 409 and answer.body["error"]["code"] == "PAYMENT_ALREADY_USED"
    assert stage.settles() == 1 and stage.is_free(second)


@pytest.mark.needs("FACILITATOR")
def test_same_payment_two_contracts_race(stage):
    contracts = [stage.contract(), stage.contract()]
    payment = stage.pay(contracts[0])

    answers = at_once([lambda c=contracts[n % 2]: (c, stage.post(c, BODY, payment)) for n in range(20)])
    stage.settle_down()

    winners = {c.contract_id for c in contracts if not stage.is_free(c)}
    assert len(winners) == 1 and stage.charges() == 1 and stage.settles() == 1
    stage.ran(1)
    for contract, answer in answers:
        if contract.contract_id in winners:
            assert answer.status in (200, 202)
        else:
            assert answer.status == 409 and answer.body["error"]["code"] == "PAYMENT_ALREADY_USED"


@pytest.mark.needs("FACILITATOR")
def test_duplicate_storm(stage):
    contract = stage.contract()
    payment = stage.pay(contract)

    answers = at_once([lambda: stage.post(contract, BODY, payment) for _ in range(30)])
    stage.settle_down()

    assert {answer.status for answer in answers} <= {200, 202}
    assert len({answer.body["task_id"] for answer in answers}) == 1
    assert stage.charges() == 1 and stage.settles() == 1
    stage.ran(1)


@pytest.mark.needs("FACILITATOR")
def test_a_storm_of_different_payments_charges_one(stage):
    contract = stage.contract()
    payments = [stage.pay(contract) for _ in range(12)]

    answers = at_once([lambda p=payment: stage.post(contract, BODY, p) for payment in payments])
    stage.settle_down()

    assert {answer.status for answer in answers} <= {200, 202}
    assert stage.charges() == 1
    stage.ran(1)


@pytest.mark.needs("FACILITATOR")
def test_verify_5xx(stage, stub):
    contract = stage.contract()
    stub.say("verify", "500", "ok")

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 503 and answer.headers["Retry-After"] == "5"
    assert answer.body["error"]["code"] == "PAYMENT_PROVIDER_UNAVAILABLE"
    assert stage.is_free(contract)
    assert stage.post(contract, BODY, stage.pay(contract)).status == 200


@pytest.mark.needs("FACILITATOR")
def test_verify_400_with_json(stage, stub):
    contract = stage.contract()
    stub.say("verify", "400:insufficient_funds")

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 402 and answer.body["details"]["reason"] == "insufficient_funds"


@pytest.mark.needs("FACILITATOR")
def test_poll_wrong_contract(stage):
    contract, other = stage.contract(), stage.contract()
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]
    stage.post(other, BODY, stage.pay(other))

    wrong = stage.get(other, task_id)

    assert wrong.status == 404
    assert wrong.body == stage.get(contract, "task_" + "A" * 26).body == stage.get("ctr_nobody", task_id).body
    assert wrong.body["error"]["code"] == "TASK_NOT_FOUND"


@pytest.mark.needs("FACILITATOR")
def test_poll_missing_header(stage):
    contract = stage.contract()
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]

    assert stage.get(None, task_id).status == 400


def at_once(acts):
    answers: list = []
    threads = [threading.Thread(target=lambda act=act: answers.append(act())) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(acts)
    return answers


@pytest.mark.needs("FACILITATOR")
def test_a_request_without_a_contract_is_told_which_header_to_send(stage):
    contract = stage.contract()
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]

    missing = [stage.post("", BODY), stage.get(None, task_id)]
    malformed = stage.post("contract-1", BODY)

    for answer in missing:
        assert (answer.status, answer.body["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "send X-Contract-ID" in answer.body["error"]["message"]
    assert malformed.status == 400 and "X-Contract-ID" in malformed.body["error"]["message"]
