"""Wallets that are contracts: asked on their own chain, and only the exact answer counts."""

import pytest

from piecework.worker.chain.exchange import Answer, NotSent
from piecework.worker.chain.networks import BASE
from piecework.worker.chain.rpc import ChainUnavailable
from piecework.worker.contract.signatures import sign, signing_digest
from piecework.worker.contract.smart_wallets import SmartWallets
from tests.support.worker.contracts import EXAMPLE, WORKER_KEY, WORKER_WALLET

WALLET = "0x" + "5a" * 20
DIGEST = bytes(range(32))
YES = "0x1626ba7e" + "00" * 28


class Node:
    """A JSON-RPC node with prepared results."""

    def __init__(self, **results):
        self.results = {"eth_chainId": "0x2105", "eth_getCode": "0x60", "eth_call": YES} | results
        self.calls = []

    def exchange(self, method, path, body, headers, seconds):
        self.calls.append(body)
        result = self.results[body["method"]]
        return result if not isinstance(result, str) else Answer(200, {"jsonrpc": "2.0", "id": 1, "result": result})


def test_the_wallets_own_word_counts():
    node = Node()

    assert SmartWallets(node)(WALLET, DIGEST, "0xabcdef", BASE)

    asked = node.calls[-1]["params"][0]
    assert asked["to"] == WALLET
    assert asked["data"] == "0x1626ba7e" + DIGEST.hex() + f"{64:064x}" + f"{3:064x}" + "abcdef".ljust(64, "0")


@pytest.mark.parametrize(
    "results",
    [
        {"eth_getCode": "0x"},
        {"eth_call": "0x"},
        {"eth_call": "0x" + "00" * 32},
        {"eth_call": YES + "00"},
        {"eth_call": Answer(200, {"error": {"code": 3, "message": "execution reverted"}})},
    ],
)
def test_anything_but_the_exact_word_is_a_no(results):
    assert not SmartWallets(Node(**results))(WALLET, DIGEST, "0xab", BASE)


@pytest.mark.parametrize("results", [{"eth_chainId": "0x14a34"}, {"eth_chainId": NotSent("refused")}])
def test_a_node_of_another_chain_or_none_says_nothing(results):
    with pytest.raises(ChainUnavailable):
        SmartWallets(Node(**results))(WALLET, DIGEST, "0xab", BASE)


def test_plain_wallets_and_nonsense_need_no_node():
    node = Node()
    digest = signing_digest("ctr_demo01", EXAMPLE["hash"], "worker", BASE)
    signature = sign(WORKER_KEY, "ctr_demo01", EXAMPLE["hash"], "worker", BASE)

    assert SmartWallets(node)(WORKER_WALLET, digest, signature, BASE)
    assert not any(SmartWallets(node)(WALLET, digest, text, BASE) for text in ("", "0x", "0xz", "ab"))
    assert node.calls == []
