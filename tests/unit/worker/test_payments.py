"""The terms of payment, the 402, and the local checks L1 to L7."""

import json
from dataclasses import replace

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from piecework.worker.chain.networks import BASE
from piecework.worker.errors import WorkerError
from piecework.worker.payment.payments import (
    PaymentInvalid,
    check_payment,
    claim_key,
    covers_an_attempt,
    parse_payment,
    read_payment,
)
from piecework.worker.payment.terms import (
    PaymentTerms,
    authorization_seconds,
    demand_for,
    payment_required,
    receipt_headers,
)
from tests.support.worker.payments import (
    CONTRACT,
    NONCE,
    NOW_MS,
    NOW_S,
    SEEKER,
    SEEKER_KEY,
    SEPOLIA,
    STRANGER_KEY,
    WORKER,
    PricedContract,
    a_payment,
    a_request,
    an_authorization,
    decoded,
    header,
    signed_payload,
    some_terms,
    typed_data,
)

TERMS = some_terms()


def reason_of(payment, terms=TERMS, contract=CONTRACT, now_ms=NOW_MS):
    with pytest.raises(PaymentInvalid) as caught:
        check_payment(payment, terms, contract, now_ms)
    assert caught.value.code == "PAYMENT_INVALID"
    assert caught.value.status == 402
    return caught.value.details["reason"]


def assert_malformed(headers, **options):
    with pytest.raises(WorkerError) as caught:
        parse_payment(a_request(headers), **options)
    assert caught.value.code == "PAYMENT_MALFORMED"
    assert caught.value.status == 400
    return caught.value.message


class TestTerms:
    def test_the_v2_entry_is_exactly_what_clients_need(self):
        assert TERMS.entry(2) == {
            "scheme": "exact",
            "network": "eip155:8453",
            "amount": "5000000",
            "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            "payTo": WORKER,
            "maxTimeoutSeconds": 900,
            "extra": {"name": "USD Coin", "version": "2"},
        }

    def test_the_v1_entry_is_exactly_what_clients_need(self):
        assert TERMS.entry(1) == {
            "scheme": "exact",
            "network": "base",
            "maxAmountRequired": "5000000",
            "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            "payTo": WORKER,
            "resource": "https://w.example/hire/execute",
            "description": "HIRE contract ctr_demo01",
            "mimeType": "application/json",
            "outputSchema": None,
            "maxTimeoutSeconds": 900,
            "extra": {"name": "USD Coin", "version": "2"},
        }

    def test_only_work_after_settlement_is_announced(self):
        assert some_terms(settle_before=True).entry(2)["extra"]["paymentFlow"] == "upfront"
        assert "paymentFlow" not in TERMS.entry(2)["extra"]

    @pytest.mark.parametrize(
        ("attempts", "latency_ms", "seconds"),
        [
            (3, 60_000, 900),  # 180 + 600 = 780
            (1, 1, 900),  # 1 + 600 = 601
            (3, 300_000, 1_500),
            (1, 300_001, 1_200),  # 301 + 600 = 901
            (1, 82_800_000, 83_400),
            (10, 82_800_000, 86_400),
        ],
    )
    def test_an_authorization_lives_through_all_attempts_and_settlement(self, attempts, latency_ms, seconds):
        assert authorization_seconds(attempts, latency_ms) == seconds

    @pytest.mark.parametrize(
        ("max_latency_ms", "max_duration_ms", "latency_ms"),
        [(60_000, None, 60_000), (60_000, 120_000, 120_000), (None, 120_000, 120_000), (None, None, 300_000)],
    )
    def test_the_longest_attempt_is_the_contracts_or_the_executors(self, max_latency_ms, max_duration_ms, latency_ms):
        contract = PricedContract(max_latency_ms=max_latency_ms)

        assert PaymentTerms.of(contract, max_duration_ms, "https://w.example/").latency_ms == latency_ms

    @given(st.integers(1, 10), st.integers(1, 82_800_000))
    def test_an_authorization_is_never_outside_its_bounds(self, attempts, latency_ms):
        seconds = authorization_seconds(attempts, latency_ms)

        assert 600 <= seconds <= 86_400
        assert seconds % 300 == 0
        assert seconds == 86_400 or seconds * 1000 >= attempts * latency_ms + 600_000


class TestThe402:
    def test_says_the_price_four_ways(self):
        demand = payment_required(TERMS)

        assert {name: value for name, value in demand.headers.items() if name.startswith("X-Payment-")} == {
            "X-Payment-Address": WORKER,
            "X-Payment-Amount": "5",
            "X-Payment-Currency": "USDC",
            "X-Payment-Network": "base",
        }
        assert decoded(demand.headers["PAYMENT-REQUIRED"]) == {
            "x402Version": 2,
            "error": "PAYMENT_REQUIRED",
            "resource": {
                "url": "https://w.example/hire/execute",
                "description": "HIRE contract ctr_demo01",
                "mimeType": "application/json",
            },
            "accepts": [TERMS.entry(2)],
            "extensions": {},
        }
        assert len(demand.headers["PAYMENT-REQUIRED"]) < 4_096

    def test_has_a_body_for_version_1_clients_and_people(self):
        body = payment_required(TERMS).body

        assert body["x402Version"] == 1
        assert body["error"] == "payment required"
        assert body["accepts"] == [TERMS.entry(1)]
        assert (body["status"], body["contract_id"], body["code"]) == ("failed", "ctr_demo01", "PAYMENT_REQUIRED")
        assert "max_amount_per_payment" in body["details"]["hint"]

    def test_without_version_1_has_the_usual_failed_body(self):
        body = payment_required(TERMS, v1=False).body

        assert "accepts" not in body
        assert body["error"]["code"] == "PAYMENT_REQUIRED"
        assert body["error"]["retryable"] is True

    def test_says_why_a_payment_was_not_taken(self):
        demand = demand_for(PaymentInvalid("insufficient_funds"), TERMS, members={"task_id": "task_1"})

        assert demand.body["code"] == "PAYMENT_INVALID"
        assert demand.body["details"]["reason"] == "insufficient_funds"
        assert demand.body["task_id"] == "task_1"
        assert decoded(demand.headers["PAYMENT-REQUIRED"])["error"] == "insufficient_funds"

    @pytest.mark.parametrize(("version", "name"), [(2, "PAYMENT-RESPONSE"), (1, "X-PAYMENT-RESPONSE")])
    def test_the_receipt_comes_under_the_name_of_the_version_used(self, version, name):
        assert {k: decoded(v) for k, v in receipt_headers(version, {"success": True}).items()} == {
            name: {"success": True}
        }


class TestReading:
    def test_no_payment_header_is_no_payment(self):
        assert parse_payment(a_request({"Content-Type": "application/json"})) is None

    def test_a_stock_clients_payment_is_read(self):
        document = signed_payload(TERMS)

        payment = parse_payment(a_request({"Payment-Signature": header({**document, "foreign": 1})}))

        assert payment.version == 2
        assert payment.authorization == an_authorization(valid_before=NOW_S + 900)
        assert payment.document == document
        assert read_payment(payment.document) == payment

    def test_a_version_1_payment_is_read(self):
        document = signed_payload(TERMS, version=1)

        payment = parse_payment(a_request({"X-PAYMENT": header(document)}))

        assert (payment.version, payment.authorization.nonce) == (1, NONCE)

    def test_a_version_1_payment_is_refused_where_it_is_off(self):
        assert_malformed({"X-PAYMENT": header(signed_payload(TERMS, version=1))}, v1=False)

    def test_a_payment_shows_its_secret_nowhere(self):
        document = signed_payload(TERMS)

        assert document["payload"]["signature"] not in repr(read_payment(document))

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "@@@",
            "abc",
            "YW Jj",
            header(b"not json"),
            header(b"\xff\xfe"),
            header([]),
            header({}),
            header(b'{"x402Version":2,"x402Version":2}'),
            header(b"[" * 1000),
            "YQ",
            "YR==",
            "\u00e9",
            "A" * 9 * 1024,
        ],
    )
    def test_what_cannot_be_read_is_malformed(self, value):
        assert_malformed({"PAYMENT-SIGNATURE": value})

    def test_two_payments_are_malformed(self):
        value = header(signed_payload(TERMS))

        assert_malformed({"PAYMENT-SIGNATURE": value, "X-PAYMENT": header(signed_payload(TERMS, version=1))})
        assert_malformed({"PAYMENT-SIGNATURE": [value, value]})
        assert_malformed({"PAYMENT-SIGNATURE": f"{value},{value}"})
        assert_malformed({"PAYMENT-SIGNATURE": f"{value}, {value}"})

    def test_the_version_must_be_the_headers(self):
        assert_malformed({"X-PAYMENT": header(signed_payload(TERMS))})
        assert_malformed({"PAYMENT-SIGNATURE": header(signed_payload(TERMS, version=1))})
        assert_malformed({"X-PAYMENT": header({**signed_payload(TERMS, version=1), "x402Version": True})})
        assert_malformed({"PAYMENT-SIGNATURE": header({**signed_payload(TERMS), "x402Version": 2.0})})

    @pytest.mark.parametrize("member", ["from", "to", "value", "validAfter", "validBefore", "nonce"])
    @pytest.mark.parametrize("value", [None, 5, "", "0x", "-1", "1e3", "05", "5.0", " 5", "١", "9" * 79, str(2**256)])
    def test_every_member_of_an_authorization_has_a_form(self, member, value):
        document = signed_payload(TERMS)
        document["payload"]["authorization"][member] = value

        assert_malformed({"PAYMENT-SIGNATURE": header(document)})

    @pytest.mark.parametrize("signature", [None, "", "0x", "0x" + "1" * 129, "0x" + "zz" * 65, "11" * 65, 7])
    def test_a_signature_has_a_form(self, signature):
        document = signed_payload(TERMS)
        document["payload"]["signature"] = signature

        assert_malformed({"PAYMENT-SIGNATURE": header(document)})

    @pytest.mark.parametrize(
        "change",
        [{"accepted": None}, {"accepted": []}, {"payload": None}, {"resource": 1}, {"extensions": []}],
    )
    def test_the_other_members_have_types(self, change):
        assert_malformed({"PAYMENT-SIGNATURE": header({**signed_payload(TERMS), **change})})

    def test_a_smart_wallets_longer_signature_is_read(self):
        document = signed_payload(TERMS)
        document["payload"]["signature"] = "0x" + "ab" * 500

        assert parse_payment(a_request({"PAYMENT-SIGNATURE": header(document)}))

    def test_permit2_is_an_unsupported_scheme(self):
        document = signed_payload(TERMS)
        document["payload"] = {"signature": "0x", "permit2Authorization": {}}

        with pytest.raises(PaymentInvalid) as caught:
            parse_payment(a_request({"PAYMENT-SIGNATURE": header(document)}))

        assert caught.value.reason == "unsupported_scheme"

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
    def test_any_other_json_is_malformed(self, value):
        assert_malformed({"PAYMENT-SIGNATURE": header(json.dumps({"x402Version": 2, "payload": value}).encode())})


class TestChecking:
    def test_the_right_payment_passes(self):
        check_payment(a_payment(), TERMS, CONTRACT, NOW_MS)
        check_payment(a_payment(version=1), TERMS, CONTRACT, NOW_MS)

    def test_echoed_addresses_may_differ_in_case_and_extra_may_hold_more(self):
        accepted = {
            "asset": BASE.usdc.lower(),
            "payTo": WORKER.upper().replace("0X", "0x"),
            "extra": {**TERMS.extra, "more": [1]},
        }

        check_payment(a_payment(accepted=accepted), TERMS, CONTRACT, NOW_MS)

    @pytest.mark.parametrize(
        "accepted",
        [
            {"scheme": "upto"},
            {"network": "eip155:84532"},
            {"network": "base"},
            {"amount": "5"},
            {"amount": 5_000_000},
            {"maxTimeoutSeconds": 901},
            {"maxTimeoutSeconds": "900"},
            {"maxTimeoutSeconds": 900.0},
            {"asset": WORKER},
            {"payTo": SEEKER},
            {"payTo": None},
            {"extra": {}},
            {"extra": None},
            {"extra": {"name": "USDC", "version": "2"}},
            {"extra": {"name": ["USD Coin"], "version": "2"}},
        ],
    )
    def test_other_terms_than_ours_are_refused(self, accepted):
        assert reason_of(a_payment(accepted=accepted)) == "invalid_payment_requirements"

    @pytest.mark.parametrize("change", [{"scheme": "upto"}, {"network": "base-sepolia"}, {"network": "eip155:8453"}])
    def test_other_version_1_terms_are_refused(self, change):
        payment = read_payment({**signed_payload(TERMS, version=1), **change})

        assert reason_of(payment) == "invalid_payment_requirements"

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"to": SEEKER}, "invalid_exact_evm_payload_recipient_mismatch"),
            ({"value": "4999999"}, "invalid_exact_evm_payload_authorization_value_mismatch"),
            ({"value": "5000001"}, "invalid_exact_evm_payload_authorization_value_mismatch"),
            ({"value": "1000000"}, "invalid_exact_evm_payload_authorization_value_mismatch"),
            ({"validAfter": str(NOW_S + 300)}, "invalid_exact_evm_payload_authorization_valid_after"),
            ({"validBefore": str(NOW_S + 3)}, "invalid_exact_evm_payload_authorization_valid_before"),
            ({"validBefore": str(NOW_S + 119)}, "invalid_exact_evm_payload_authorization_valid_before"),
        ],
    )
    @pytest.mark.parametrize("version", [1, 2])
    def test_what_was_signed_must_be_the_contracts(self, changes, reason, version):
        assert reason_of(a_payment(version=version, **changes)) == reason

    def test_the_first_failure_wins(self):
        payment = a_payment(key=STRANGER_KEY, to=SEEKER, value="1", validBefore="1")

        assert reason_of(payment) == "invalid_exact_evm_payload_recipient_mismatch"

    def test_an_authorization_must_outlive_one_attempt_and_its_settlement(self):
        just = a_payment(validBefore=str(NOW_S + 120), validAfter=str(NOW_S))

        check_payment(just, TERMS, CONTRACT, NOW_MS)
        assert reason_of(just, now_ms=NOW_MS + 1).endswith("valid_before")
        assert not covers_an_attempt(just.authorization, TERMS, NOW_MS + 1)

    def test_only_the_contracts_seeker_pays(self):
        with pytest.raises(WorkerError) as caught:
            check_payment(a_payment(key=STRANGER_KEY), TERMS, CONTRACT, NOW_MS)

        assert (caught.value.code, caught.value.status) == ("CONTRACT_MISMATCH", 403)
        check_payment(a_payment(key=STRANGER_KEY), TERMS, CONTRACT, NOW_MS, bind_payer=False)

    def test_a_wallet_may_be_written_in_any_case(self):
        contract = replace(CONTRACT, seeker_wallet=SEEKER.lower())

        check_payment(a_payment(), some_terms(contract), contract, NOW_MS)

    def test_the_claim_is_on_what_the_chain_takes_once(self):
        expected = f"8453/0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/{SEEKER.lower()}/{NONCE}"

        assert claim_key(an_authorization(), BASE) == expected
        assert claim_key(an_authorization(nonce=NONCE.upper().replace("0X", "0x")), BASE) == expected
        assert claim_key(an_authorization(), SEPOLIA) != expected


class TestVectors:
    def test_what_we_sign_in_tests_is_what_the_specification_signs(self):
        authorization = {
            "from": SEEKER,
            "to": WORKER,
            "value": "5000000",
            "validAfter": "0",
            "validBefore": "1800000000",
            "nonce": NONCE,
        }
        message = encode_typed_data(full_message=typed_data(authorization, BASE))

        assert keccak(b"\x19" + message.version + message.header + message.body).hex() == (
            "6f839604fb757a63b9562744208a9993639e8a4accfa70ee134b43698acf0088"
        )
        assert Account.sign_message(message, SEEKER_KEY).signature.hex().removeprefix("0x") == (
            "9794e1fe9b4aa0d01f07447e1991dc4a82d09fe235d29b6833fd70d15cc509533"
            "b47b43c703d31d5a0809cb5d532ac43b44d0b6bbe728a1ed14a8b5d09e4598c1c"
        )
