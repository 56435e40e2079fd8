"""Worker specification 2.1, as amended: real money is taken only where its chain can be seen; testnets go without."""

import pytest

from piecework.worker.contract.contracts import WorkerIdentity, validate
from piecework.worker.errors import ContractInvalid
from piecework.worker.manifest import manifest_of
from piecework.worker.record.states import State
from piecework.worker.settings import WorkerSettings
from tests.support.worker.contracts import EXAMPLE_NOW_MS, WORKER_AGENT_ID, WORKER_WALLET, a_contract
from tests.support.worker.stage import BODY, Stage

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


NODE = {"BASE_RPC_URL": "https://node.example/key"}
SEEN = {"BASE_CHAIN_SEEN": "true"}  # what functions that take no payment are told instead of the node's URL
TESTNET = {"ALLOW_TESTNET": "true"}
# Settings, and the networks whose contracts are taken with them.
SERVED = [
    ({}, set()),
    (TESTNET, {"base-sepolia"}),
    (NODE, {"base"}),
    (SEEN, {"base"}),
    (NODE | TESTNET, {"base", "base-sepolia"}),
    ({"BASE_RPC_URL": "", "BASE_CHAIN_SEEN": "false", **TESTNET}, {"base-sepolia"}),
]


def settings_with(given):
    known = {"PUBLIC_BASE_URL": "https://w.example", "WORKER_WALLETS": WORKER_WALLET}
    return WorkerSettings.from_env({**known, "WORKER_AGENT_ID": WORKER_AGENT_ID, **given})


@pytest.mark.parametrize(("given", "networks"), SERVED)
def test_contracts_are_taken_for_networks_whose_chain_can_be_seen_and_for_testnets(given, networks):
    identity = WorkerIdentity.of(settings_with(given))

    for network in ("base", "base-sepolia"):
        document = a_contract(terms__price__network=network)
        if network in networks:
            assert validate(document, None, identity, EXAMPLE_NOW_MS).network.name == network
            continue
        with pytest.raises(ContractInvalid) as refusal:
            validate(document, None, identity, EXAMPLE_NOW_MS)
        assert refusal.value.rule == "V5"


@pytest.mark.parametrize(("given", "networks"), SERVED)
def test_the_manifest_lists_the_networks_that_are_taken(given, networks):
    listed = manifest_of(settings_with(given), [], "echo")["pricing"]["networks"]

    assert {network["name"] for network in listed} == networks


def test_no_real_money_is_asked_for_or_bound_while_its_chain_cannot_be_seen(stub):
    """A contract that was taken before the node was taken away."""
    stage = Stage(stub, ports={"chain_of": lambda network: None})
    contract = stage.contract()

    for headers in ({}, stage.pay(contract)):
        answer = stage.post(contract, BODY, headers)
        assert answer.status == 503 and answer.body["error"]["code"] == "PAYMENT_PROVIDER_UNAVAILABLE"
    assert stage.executions.read(contract.contract_id) is None and stage.runs == []


def test_an_authorization_that_its_payer_cancels_buys_nothing_though_the_node_is_gone(stub):
    """A task that was claimed while there was a node: a nonce that a facilitator calls used may be a cancelled one."""
    nodes = [None]
    stage = Stage(stub)
    own = stage.worker.chain_of
    stage = Stage(stub, clock=stage.clock, ports={"chain_of": lambda network: nodes[0]})
    nodes[0] = own(None)
    stub.say("settle", "cancelled")
    contract = stage.contract()
    stage.post(contract, BODY, stage.pay(contract))
    nodes[0] = None

    stage.settle_down(7_200)
    told = stage.get(contract, stage.standing(contract).task_id)

    assert stage.state(contract) is State.UNKNOWN and stage.charges() == 0
    assert told.body["payment"]["status"] == "unresolved" and "output" not in told.body
