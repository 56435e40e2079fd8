"""Signatures of wallets that are contracts: the wallet itself decides (EIP-1271), asked on its own chain.

Used by the operator's import only: POST /contracts must not make strangers' documents cause calls to a node.
"""

from typing import Final

from piecework.jsons import Json
from piecework.values import dataclass
from piecework.worker.chain.exchange import Answer, Endpoint
from piecework.worker.chain.networks import Network
from piecework.worker.chain.rpc import ChainUnavailable, word
from piecework.worker.contract.signatures import is_signed_by_key

CALL_SECONDS: Final = 5.0
MAGIC: Final = "1626ba7e"  # selector of isValidSignature(bytes32,bytes), and what it returns for a good one
WORD_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class SmartWallets:
    """A signature check that also takes wallets with code, over a JSON-RPC node."""

    node: Endpoint

    def __call__(self, wallet: str, digest: bytes, signature: str, network: Network) -> bool:
        """Whether the wallet signed; plain wallets are recovered without the node.

        Raises:
            ChainUnavailable: the node cannot be asked, or is one of another chain.
        """
        if is_signed_by_key(wallet, digest, signature, network):
            return True
        if not _is_hex(signature):
            return False
        if self._call("eth_chainId") != hex(network.chain_id):
            raise ChainUnavailable(f"the node does not serve {network.name}")
        if self._call("eth_getCode", wallet, "latest") in ("0x", "0x0"):
            return False
        data = "0x" + MAGIC + _arguments(digest, signature)
        answer = self._call("eth_call", {"to": wallet, "data": data}, "latest")
        return answer.lower() == "0x" + MAGIC.ljust(WORD_CHARACTERS, "0")

    def _call(self, method: str, *params: Json) -> str:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = self.node.exchange("POST", "", request, {}, CALL_SECONDS)
        if not isinstance(answer, Answer) or answer.document is None:
            raise ChainUnavailable(f"the node did not answer {method}")
        if answer.document.get("error") is not None:  # a wallet that reverts does not agree
            return ""
        return str(answer.document.get("result"))


def _arguments(digest: bytes, signature: str) -> str:
    """(bytes32, bytes) in the ABI's form."""
    raw = signature[2:].lower()
    padded = raw.ljust(-(-len(raw) // WORD_CHARACTERS) * WORD_CHARACTERS, "0")
    return word(digest.hex()) + word(hex(64)) + word(hex(len(raw) // 2)) + padded


def _is_hex(signature: str) -> bool:
    try:
        return signature.startswith("0x") and len(bytes.fromhex(signature[2:])) > 0
    except ValueError:
        return False
