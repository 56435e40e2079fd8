"""Worker specification, cases 4, 5, 54 (what the URL alone tells) and 62-66: contracts and how they get in."""

import contextlib
import copy
import socket
import time

import pytest
from eth_abi import encode
from eth_utils import keccak

from piecework.clock import DAY_MS, now_in_ms
from piecework.schemas import SchemaRejected
from piecework.worker.chain.networks import NETWORKS, atomic_units
from piecework.worker.contract.contracts import time_text, validate
from piecework.worker.contract.schema import compile_task_schema
from tests.support.served import url_run
from tests.support.worker.contracts import (
    EXAMPLE,
    EXAMPLE_NOW_MS,
    IDENTITY,
    SECRET,
    WORKER_AGENT_ID,
    WORKER_KEY,
    WORKER_WALLET,
    a_contract,
    change,
    signed,
)

PUBLIC_BASE_URL = "https://w.example/hire"

REFUSED_WEBHOOKS = [
    "http://seeker.example/hook",
    "https://169.254.169.254",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]",
    "https://[fd00:ec2::254]/",
    "https://0x7f000001",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://seeker.0x7f/",
    "https://user@h",
    "https://user:pw@seeker.example/",
    "https://seeker.example:22/",
    "https://seeker.example:80/",
    "https://localhost",
    "https://localhost./",
    "https://a.localhost/",
    "https://printer.local/",
    "https://db.internal/",
    "https://db.INTERNAL./",
    "https://intranet/",
    "https:///hook",
    "https://seeker.example\\@127.0.0.1/",
    "https://seeker.example/\r\nX-Evil: 1",
    "ftp://seeker.example/",
    "//seeker.example/",
    "https://" + "a" * 250 + ".example/",
    "https://\u2488\u2488\u2488/",
    "",
]


@pytest.fixture(scope="module")
def worker(request):
    if url_run.url():
        with url_run.client() as http:
            yield http
        return
    running = request.getfixturevalue("gateway")(
        api="WorkerApi",
        fresh=True,  # it polls the queues, too: nobody else's tasks may be waiting there
        PIECEWORK_PARAM_DeployWorkerDoor="true",
        PUBLIC_BASE_URL=PUBLIC_BASE_URL,
        WORKER_WALLETS=WORKER_WALLET,
        WORKER_AGENT_ID=WORKER_AGENT_ID,
        BASE_RPC_URL="http://127.0.0.1:9/rpc",  # real money is taken only where its chain can be seen
    )
    yield running.http
    running.close()


def fresh(**changes):
    return a_contract(now_in_ms(), **changes)


def register(worker, document, **members):
    return worker.post("/contracts", json={"contract": document, **members})


def show(worker, contract_id):
    return worker.get(f"/contracts/{contract_id}")


def assert_refused(answer, rule):
    assert answer.status_code == 422, answer.text
    body = answer.json()
    assert body["status"] == "failed"
    assert body["error"]["code"] == "CONTRACT_INVALID" and body["error"]["retryable"] is False
    assert body["error"]["details"]["rule"] == rule, body["error"]


def test_amount_mapping(worker):
    for amount in ("5", "0.01", "1.000001"):
        assert register(worker, fresh(terms__price__amount=amount)).status_code == 201

    for amount in ("12.3456789", "1e3", "-1", "0", "05", "NaN"):
        assert_refused(register(worker, fresh(terms__price__amount=amount)), "V6")


@pytest.mark.inside("looks into the door's own code")
def test_amount_mapping_in_atomic_units():
    for amount, atomic in (("5", 5_000_000), ("0.01", 10_000), ("1.000001", 1_000_001)):
        assert atomic_units(amount) == atomic


@pytest.mark.inside("looks into the door's own code")
def test_domain_table_pinned():
    def separator(network):
        type_hash = keccak(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
        names = [keccak(text=network.eip712_name), keccak(text=network.eip712_version)]
        fields = ["bytes32", "bytes32", "bytes32", "uint256", "address"]
        return keccak(encode(fields, [type_hash, *names, network.chain_id, network.usdc])).hex()

    base, sepolia = NETWORKS["base"], NETWORKS["base-sepolia"]

    assert separator(base) == "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
    assert separator(sepolia) == "71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818"
    assert (base.eip712_name, base.eip712_version) == ("USD Coin", "2")
    assert (sepolia.eip712_name, sepolia.eip712_version) == ("USDC", "2")
    assert set(NETWORKS) == {"base", "base-sepolia"}


def test_webhook_ssrf_static(worker):
    for url in REFUSED_WEBHOOKS:
        assert_refused(register(worker, fresh(callbacks={"webhook_url": url})), "V13")

    for accepted in ("https://seeker.example/hooks?a=1", "https://xn--bcher-kva.example:8443/", "https://a.b.de"):
        assert register(worker, fresh(callbacks={"webhook_url": accepted})).status_code == 201


def test_schema_remote_ref(worker):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        remote = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        for schema in (
            {"$ref": remote},
            {"$dynamicRef": remote},
            {"properties": {"a": {"$ref": f"{remote}#/$defs/b"}}},
            {"$defs": {"unused": {"$ref": remote}}},
            {"$id": "http://127.0.0.1/base/", "properties": {"a": {"$ref": "other.json"}}},
            {"$schema": remote},
        ):
            for name in ("input_schema", "output_schema"):
                assert_refused(register(worker, fresh(**{f"task__{name}": schema})), "V12")
        with pytest.raises(TimeoutError):  # nobody has asked for it
            listener.accept()

    local = {"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}, "$ref": {"type": "string"}}}
    assert register(worker, fresh(task__output_schema=local)).status_code == 201


def test_schema_redos(worker, request):
    longest = "a" * 262_000 + "!"  # what a body can hold
    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^([a-zA-Z]+)*$", "(.*a){25}$", "^(((a+)+)+)+$", "(?=a+)+$"):
        for schema in (
            {"pattern": pattern},
            {"patternProperties": {pattern: False}},
            {"propertyNames": {"pattern": pattern}},
        ):
            answer = register(worker, fresh(task__input_schema=schema))
            assert answer.status_code in (201, 422), answer.text
            if answer.status_code == 422:
                assert_refused(answer, "V12")
                continue
            if url_run.url():
                url_run.held_back(request.config, "how long a pattern runs over what a body holds", request.node)
                continue
            for text in ("a" * 30 + "!", longest):
                begun = time.monotonic()
                with contextlib.suppress(SchemaRejected):  # counted before it is evaluated, and refused
                    compile_task_schema(schema).is_valid(text if "pattern" in schema else {text: 1})
                assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("pattern", "status"),
    [
        ("^(" + "|".join(f"word{number}" for number in range(200)) + ")$", 201),  # long to write, small when compiled
        ("^" + "[a-z]" * 150 + "$", 201),
        ("^(([a-z]{50}){50}){50}$", 422),  # short to write, and huge
    ],
)
def test_a_pattern_is_bounded_by_its_compiled_size_and_not_by_its_length(worker, pattern, status):
    answer = register(worker, fresh(task__input_schema={"pattern": pattern}))

    assert answer.status_code == status
    if status == 422:
        assert_refused(answer, "V12")


@pytest.mark.inside("looks into the door's own code")
def test_contract_hash_of_the_example():
    assert validate(EXAMPLE, SECRET, IDENTITY, EXAMPLE_NOW_MS).hash == EXAMPLE["hash"]


def test_contract_hash_and_signatures(worker):
    changed = fresh()
    changed["task"]["description"] += "!"
    assert_refused(register(worker, changed), "V9")

    swapped = fresh()
    signatures = swapped["signatures"]
    signatures["worker"], signatures["seeker"] = signatures["seeker"], signatures["worker"]
    assert_refused(register(worker, swapped), "V10")

    unsigned = fresh()
    unsigned["signatures"]["worker"] = "0x"
    assert_refused(register(worker, unsigned), "V10")
    assert_refused(register(worker, signed(fresh(), seeker_key=WORKER_KEY)), "V11")
    assert_refused(register(worker, fresh(parties__worker__wallet="0x" + "44" * 20)), "V3")

    assert register(worker, fresh()).status_code == 201


def test_contract_reregistration(worker):
    document = fresh(callbacks=copy.deepcopy(EXAMPLE["callbacks"]))

    first = register(worker, document, webhook_secret=SECRET)
    again = register(worker, document, webhook_secret=SECRET)
    other = copy.deepcopy(document)
    change(other, "terms__price__amount", "6")
    refused = register(worker, signed(other), webhook_secret=SECRET)

    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    assert first.json() == {
        "contract_id": document["contract_id"],
        "hash": document["hash"],
        "state": "SIGNED",
        "execute_url": f"{worker.get('/manifest').json()['endpoint']['url']}/execute",
        "expires_at": document["terms"]["deadline"],
    }
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "CONTRACT_CONFLICT"
    shown = show(worker, document["contract_id"])
    assert shown.status_code == 200
    assert shown.json() == {"contract_id": document["contract_id"], "hash": document["hash"], "state": "SIGNED"}


def test_unsupported_terms(worker):
    assert_refused(register(worker, fresh(terms__payment_trigger="escrow")), "V7")
    assert_refused(register(worker, fresh(terms__price__network="ethereum")), "V5")
    if not url_run.url():  # a door may take money of a test network
        assert_refused(register(worker, fresh(terms__price__network="base-sepolia")), "V5")
    assert_refused(register(worker, fresh(terms__price__currency="EUR")), "V5")
    for trigger in ("on_acceptance", "milestone", "upfront"):
        assert_refused(register(worker, fresh(terms__payment_trigger=trigger)), "V7")
    late = time_text(now_in_ms() + 91 * DAY_MS)
    assert_refused(register(worker, fresh(terms__deadline=late)), "V8")
