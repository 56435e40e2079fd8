"""Contracts: the rules V1 to V14 in their order, what is derived from a contract, hashes and signatures."""

import copy
import subprocess
import sys

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from local.gateway.lambdas.variables import PACKAGE
from piecework.worker.chain.networks import BASE, BASE_SEPOLIA, atomic_units
from piecework.worker.contract.contracts import attempts_of, secret_bytes, time_in_ms, time_text, validate
from piecework.worker.contract.signatures import contract_bytes, contract_hash, is_signed_by_key, sign, signing_digest
from piecework.worker.errors import ContractInvalid
from tests.support.worker.contracts import (
    EXAMPLE,
    EXAMPLE_NOW_MS,
    IDENTITY,
    SECRET,
    SEEKER_KEY,
    SEEKER_WALLET,
    WORKER_KEY,
    WORKER_WALLET,
    a_contract,
    a_record,
    change,
    signed,
)


def broken_rule(document, secret=None, now_ms=EXAMPLE_NOW_MS) -> str:
    with pytest.raises(ContractInvalid) as refused:
        validate(document, secret, IDENTITY, now_ms)
    assert refused.value.status == 422 and refused.value.details == {"rule": refused.value.rule}
    return refused.value.rule


def test_the_example_is_accepted_with_its_derived_values():
    record = validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS)

    assert (record.atomic, record.price, record.network) == (5_000_000, "5", BASE)
    assert (record.attempts, record.max_latency_ms, record.sync_deadline_ms) == (3, 60_000, 20_000)
    assert record.deadline_ms == time_in_ms("2026-02-05T09:00:00Z")
    assert record.webhook_url == "https://seeker.example/hooks/hire" and record.webhook_secret == SECRET
    assert (record.seeker_wallet, record.worker_wallet) == (SEEKER_WALLET, WORKER_WALLET)
    assert record.accept_partial is False and record.source == "api" and record.stored_at_ms == EXAMPLE_NOW_MS


def test_a_record_shows_neither_its_secret_nor_its_signatures():
    shown = repr(validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS))

    assert SECRET not in shown and EXAMPLE["signatures"]["worker"] not in shown


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("version", "HIRE/2.0", "V1"),
        ("created_at", "yesterday", "V1"),
        ("parties__seeker__agent_id", "Agent", "V1"),
        ("task__description", ..., "V1"),
        ("task__input_schema", True, "V1"),
        ("terms__platform_fee", ..., "V1"),
        ("terms__platform_fee__percentage", 101, "V1"),
        ("terms__price__amount", 5, "V1"),
        ("terms__accept_partial", "yes", "V1"),
        ("sla__refund_conditions", ["rain"], "V1"),
        ("sla__max_latency_ms", 1.5, "V1"),
        ("callbacks__webhook_secret_sha256", "ab", "V1"),
        ("contract_id", "ctr_" + "a" * 61, "V2"),
        ("contract_id", "ctr_a\n", "V2"),
        ("parties__worker__agent_id", "agent_other", "V3"),
        ("parties__worker__wallet", SEEKER_WALLET, "V3"),
        ("parties__seeker__wallet", "0x12", "V4"),
        ("parties__seeker__wallet", WORKER_WALLET.lower(), "V4"),
        ("terms__price__network", "ethereum", "V5"),
        ("terms__price__network", "base-sepolia", "V5"),
        ("terms__price__currency", "EUR", "V5"),
        ("terms__price__amount", "05", "V6"),
        ("terms__payment_trigger", "escrow", "V7"),
        ("terms__deadline", "2026-02-30T09:00:00Z", "V8"),
        ("terms__deadline", "2026-01-06T09:00:00Z", "V8"),
        ("terms__deadline", "2026-04-06T09:00:01Z", "V8"),
        ("parties__seeker__wallet", "0x" + "33" * 20, "V11"),
        ("task__output_schema", {"type": "nonsense"}, "V12"),
        ("task__input_schema", {"$ref": "https://schemas.example/x"}, "V12"),
        ("callbacks__webhook_url", "http://seeker.example/", "V13"),
        ("sla__max_latency_ms", 0, "V14"),
        ("sla__max_latency_ms", 82_800_001, "V14"),
    ],
)
def test_the_first_broken_rule_is_named(path, value, rule):
    assert broken_rule(a_contract(**{path: value})) == rule


@pytest.mark.parametrize("document", [None, [], "ctr", 5, {}])
def test_what_is_no_contract_breaks_the_first_rule(document):
    assert broken_rule(document) == "V1"


def test_a_number_beyond_the_canonical_form_breaks_the_hash_rule():
    document = copy.deepcopy(EXAMPLE) | {"note": 2**60}

    assert broken_rule(document, SECRET) == "V9"


@pytest.mark.parametrize("deadline", ["2026-04-06T09:00:00Z", "2026-01-06T09:00:00.001Z"])
def test_a_deadline_may_be_up_to_90_days_away(deadline):
    assert a_record(terms__deadline=deadline).deadline_ms == time_in_ms(deadline)


def test_a_testnet_needs_a_setting():
    from dataclasses import replace

    document = a_contract(terms__price__network="base-sepolia")

    record = validate(document, None, replace(IDENTITY, allow_testnet=True), EXAMPLE_NOW_MS)

    assert record.network is BASE_SEPOLIA


def test_a_secret_and_its_commitment_belong_together():
    committed = a_contract(callbacks=EXAMPLE["callbacks"])
    uncommitted = a_contract(callbacks={"webhook_url": "https://seeker.example/hooks"})

    assert validate(committed, SECRET, IDENTITY, EXAMPLE_NOW_MS).webhook_secret == SECRET
    assert validate(uncommitted, None, IDENTITY, EXAMPLE_NOW_MS).webhook_secret is None
    assert broken_rule(committed) == broken_rule(uncommitted, SECRET) == broken_rule(a_contract(), SECRET) == "V13"
    assert broken_rule(committed, "whsec_" + "QUJD" * 8) == "V13"


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_QUJD", "whsec_" + "QUJD" * 22, "whsec_" + "QUJD" * 8 + "=", "x"]
)
def test_a_secret_of_another_form_is_refused(secret):
    with pytest.raises(ContractInvalid):
        secret_bytes(secret)


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        ("3 attempts", 3),
        ("1 attempt", 1),
        ("2 retries", 3),
        ("1 retry", 2),
        (2, 3),
        (0, 1),
        ("0 attempts", 1),
        ("0", 1),
        ("4 times, then give up", 5),
        ("99 attempts", 10),
        ("9999999 attempts", 3),
        (" 2attempts", 2),
        (None, 3),
        ("", 3),
        ("until it works", 3),
        (-1, 3),
    ],
)
def test_a_retry_policy_gives_attempts(policy, attempts):
    assert attempts_of(policy, 3) == attempts


def test_members_we_do_not_know_are_part_of_what_was_signed():
    document = a_contract(extra={"a": [1, 1.5, "ü"]})

    assert validate(document, None, IDENTITY, EXAMPLE_NOW_MS).document["extra"] == {"a": [1, 1.5, "ü"]}
    document["extra"] = {}
    assert broken_rule(document) == "V9"


def test_the_hash_leaves_out_only_the_top_level_hash_and_signatures():
    document = copy.deepcopy(EXAMPLE)
    change(document, "task__hash", "x")

    assert len(contract_bytes(EXAMPLE)) == 932
    assert contract_hash(document) != EXAMPLE["hash"]


def test_signing_gives_the_vectors():
    digests = [signing_digest("ctr_demo01", EXAMPLE["hash"], role, BASE).hex() for role in ("worker", "seeker")]

    assert digests == [
        "7b3e7becc27ea0f1eb2f03c88b4d65d2ff38217ba66b5af84b25888b24982713",
        "cf624990f8e2144855326f139c4e1f08c34a75340534204e64165cc77b79a177",
    ]
    assert signed(copy.deepcopy(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize("name", ["ctr_1", "", "Zürich 😀\x00", "a" * 200, '"},{'])
@pytest.mark.parametrize("network", [BASE, BASE_SEPOLIA])
@pytest.mark.parametrize("role", ["worker", "seeker"])
def test_what_is_signed_is_what_a_wallet_makes_of_the_typed_data(name, network, role):
    message = encode_typed_data(
        domain_data={"name": "HIRE", "version": "1.0", "chainId": network.chain_id},
        message_types={
            "HireContract": [
                {"name": "contractId", "type": "string"},
                {"name": "contractHash", "type": "bytes32"},
                {"name": "role", "type": "string"},
            ]
        },
        message_data={"contractId": name, "contractHash": bytes.fromhex(EXAMPLE["hash"][7:]), "role": role},
    )
    theirs = Account.sign_message(message, private_key=WORKER_KEY)

    assert signing_digest(name, EXAMPLE["hash"], role, network) == bytes(theirs.message_hash)
    assert sign(WORKER_KEY, name, EXAMPLE["hash"], role, network) == "0x" + bytes(theirs.signature).hex()


def test_a_hash_of_another_length_is_not_signed():
    with pytest.raises(ValueError, match="32 bytes"):
        signing_digest("ctr_1", "sha256:" + "ab" * 31, "worker", BASE)


def test_contracts_are_checked_without_the_package_that_takes_most_of_a_second():
    code = (
        "import sys; from piecework.worker.chain.networks import BASE\n"
        "from piecework.worker.contract import signatures as s\n"
        "digest = s.signing_digest('c', 'sha256:' + 'ab' * 32, 'worker', BASE)\n"
        "signed = s.sign('0x' + '11' * 32, 'c', 'sha256:' + 'ab' * 32, 'worker', BASE)\n"
        "s.is_signed_by_key('0x' + '00' * 20, digest, signed, BASE); print('eth_account' in sys.modules)"
    )
    command, env = [sys.executable, "-c", code], {"PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_a_signature_stands_for_one_wallet_role_contract_and_chain():
    digest = signing_digest("ctr_demo01", EXAMPLE["hash"], "worker", BASE)
    signature = sign(WORKER_KEY, "ctr_demo01", EXAMPLE["hash"], "worker", BASE)

    assert is_signed_by_key(WORKER_WALLET, digest, signature, BASE)
    assert is_signed_by_key(WORKER_WALLET.lower(), digest, signature[:-2] + "01", BASE)
    assert not is_signed_by_key(SEEKER_WALLET, digest, signature, BASE)
    for other in (
        signing_digest("ctr_demo02", EXAMPLE["hash"], "worker", BASE),
        signing_digest("ctr_demo01", EXAMPLE["hash"], "seeker", BASE),
        signing_digest("ctr_demo01", EXAMPLE["hash"], "worker", BASE_SEPOLIA),
    ):
        assert not is_signed_by_key(WORKER_WALLET, other, signature, BASE)


@pytest.mark.parametrize(
    "signature", ["", "0x", "0x" + "00" * 65, "0x" + "ff" * 65, "0x" + "11" * 64, "ä", "0x" + "1" * 131]
)
def test_what_is_no_signature_is_none(signature):
    assert not is_signed_by_key(WORKER_WALLET, bytes(32), signature, BASE)


def test_a_swapped_role_is_refused():
    document = a_contract()
    signatures = document["signatures"]
    signatures["worker"], signatures["seeker"] = signatures["seeker"], signatures["worker"]

    assert broken_rule(document) == "V10"
    assert broken_rule(signed(a_contract(), seeker_key=WORKER_KEY)) == "V11"
    assert broken_rule(signed(a_contract(), worker_key=SEEKER_KEY)) == "V10"


def test_times_are_read_and_written_in_utc():
    assert time_in_ms("2026-01-06T10:00:00.999Z") == time_in_ms("2026-01-06T10:00:00Z") + 999
    assert time_text(time_in_ms("2026-01-06T10:00:00.999Z")) == "2026-01-06T10:00:00Z"


@pytest.mark.parametrize(
    "amount", ["0", "0.0", "-1", "05", "1e3", "NaN", "5 ", "٣", ".5", "5.", "1" * 13, "12.3456789", ""]
)
def test_an_amount_of_another_form_is_no_price(amount):
    with pytest.raises(ValueError):
        atomic_units(amount)
