"""A chain, read only: what became of one EIP-3009 authorization (worker specification 2.8).

    chain: Chain = RpcChain(url, chain_id=8453)          # the answers of a node of another chain do not count
    chain.latest() -> Block(number, seconds)             # each raises ChainUnavailable
    chain.receipt(hash, seconds) -> Receipt | None
    chain.nonce_spent(asset, payer, nonce, block) -> bool
    chain.nonce_logs(asset, payer, nonce, first, last) -> list[Log]

The client asks a JSON-RPC node. It can send no transaction: it only ever names five reading methods. On another chain
every nonce is unspent and no transaction is there, which would pass for proof that nobody paid: so the node's own word
for its chain is asked for first.
"""

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import ClassVar, Final, Protocol

from piecework.errors import PieceworkError
from piecework.jsons import Json
from piecework.reasons import Warn, silent, tell
from piecework.values import dataclass
from piecework.worker.chain.exchange import Answer, Endpoint

CALL_SECONDS: Final = 5.0
QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
HASH: Final = re.compile(r"0x[0-9a-f]{64}")
LAST_SECOND: Final = 253_402_300_799  # of the year 9999
LAST_BLOCK: Final = 2**53
AUTHORIZATION_STATE: Final = "0xe94a0102"  # selector of authorizationState(address,bytes32)
TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
AUTHORIZATION_USED: Final = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
AUTHORIZATION_CANCELED: Final = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"


class ChainUnavailable(PieceworkError):
    """The node cannot be reached or makes no sense, so the chain's word is not known."""

    code: ClassVar[str] = "chain_unavailable"
    retryable: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Block:
    """A block's number and its time in seconds."""

    number: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Log:
    """One event, in lower case."""

    address: str
    topics: tuple[str, ...]
    data: str
    transaction: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A transaction that is in a block: did it succeed, its events, the block's number, and its place in the block."""

    succeeded: bool
    logs: tuple[Log, ...]
    block: int = 0
    index: int | None = None  # None where the node does not tell it


class Chain(Protocol):
    """Reads of one chain. Each raises ChainUnavailable."""

    def latest(self) -> Block: ...

    def receipt(self, transaction: str, seconds: float = CALL_SECONDS) -> Receipt | None:
        """None while no block holds the transaction; `seconds` is the longest to wait for the answer."""
        ...

    def nonce_spent(self, asset: str, payer: str, nonce: str, block: int) -> bool:
        """Used or cancelled as of a block: the state alone does not say which."""
        ...

    def nonce_logs(self, asset: str, payer: str, nonce: str, first: int, last: int) -> Sequence[Log]:
        """AuthorizationUsed and AuthorizationCanceled of this nonce in these blocks, both ends included."""
        ...


class RpcChain:
    """A chain behind a JSON-RPC node; a URL that is a secret is read with each call, since it may be rotated."""

    def __init__(
        self,
        url: str | Callable[[], str],
        *,
        chain_id: int | None = None,
        seconds: float = CALL_SECONDS,
        tls: ssl.SSLContext | None = None,
        warn: Warn = silent,
    ) -> None:
        self._chain_id = chain_id  # None: whatever chain it is
        self._known: Endpoint | None = None  # the node that has said that it is of this chain
        self._url = url
        self._tls = tls
        self._warn = warn
        self._endpoint = self._endpoint_of(url) if isinstance(url, str) else None
        self._seconds = seconds

    def latest(self) -> Block:
        block = _object(self._call("eth_getBlockByNumber", "latest", False))
        return Block(_quantity(block.get("number"), LAST_BLOCK), _quantity(block.get("timestamp"), LAST_SECOND))

    def receipt(self, transaction: str, seconds: float = CALL_SECONDS) -> Receipt | None:
        found = self._call("eth_getTransactionReceipt", transaction, seconds=seconds)
        if found is None:
            return None
        receipt = _object(found)
        if receipt.get("blockNumber") is None:  # some nodes answer for what is not in a block yet
            return None
        succeeded, block = _quantity(receipt.get("status")) == 1, _quantity(receipt["blockNumber"], LAST_BLOCK)
        return Receipt(succeeded, tuple(_logs(receipt.get("logs"))), block, _place(receipt.get("transactionIndex")))

    def nonce_spent(self, asset: str, payer: str, nonce: str, block: int) -> bool:
        data = AUTHORIZATION_STATE + word(payer) + word(nonce)
        return _quantity(self._call("eth_call", {"to": asset, "data": data}, hex(block))) != 0

    def nonce_logs(self, asset: str, payer: str, nonce: str, first: int, last: int) -> Sequence[Log]:
        topics = [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], "0x" + word(payer), "0x" + word(nonce)]
        wanted = {"address": asset, "topics": topics, "fromBlock": hex(first), "toBlock": hex(last)}
        return _logs(self._call("eth_getLogs", wanted))

    def _endpoint_of(self, url: str) -> Endpoint:
        return Endpoint(url, tls=self._tls, to="node", warn=self._warn)

    def _node(self) -> Endpoint:
        if isinstance(self._url, str) and self._endpoint is not None:
            return self._endpoint
        try:
            made = self._endpoint_of(self._url().strip() if callable(self._url) else self._url)
        except PieceworkError as error:
            raise ChainUnavailable("the node's URL cannot be read, or is not a URL") from error
        if self._endpoint is None or self._endpoint.url != made.url:
            self._endpoint = made
        return self._endpoint

    def _call(self, method: str, *params: Json, seconds: float = CALL_SECONDS) -> Json:
        node, ends = self._node(), monotonic() + min(seconds, self._seconds)
        if self._chain_id is not None and self._known is not node:
            if _quantity(self._ask(node, "eth_chainId", (), ends)) != self._chain_id:
                tell(self._warn, "node", reason="another_chain")
                raise ChainUnavailable("the node is one of another chain")
            self._known = node
        return self._ask(node, method, params, ends)

    def _ask(self, node: Endpoint, method: str, params: Sequence[Json], ends: float) -> Json:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = node.exchange("POST", "", request, {}, max(0.0, ends - monotonic()))
        document = answer.document if isinstance(answer, Answer) else None
        if document is None:
            raise ChainUnavailable(f"the node did not answer {method}")
        if document.get("error") is not None or "result" not in document:
            raise ChainUnavailable(f"the node refused {method}")
        return document["result"]


def word(value: str) -> str:
    """An address or 32 bytes as one ABI word, without 0x."""
    return value.lower().removeprefix("0x").rjust(64, "0")


def _logs(value: Json) -> list[Log]:
    if not isinstance(value, list):
        raise ChainUnavailable("the node's logs make no sense")
    return [_log(_object(entry)) for entry in value if not _object(entry).get("removed")]


def _log(entry: Mapping[str, Json]) -> Log:
    address, topics, data, transaction = (entry.get(n) for n in ("address", "topics", "data", "transactionHash"))
    if not isinstance(topics, list) or not HASH.fullmatch(_lower(transaction)):
        raise ChainUnavailable("the node's logs make no sense")
    return Log(_lower(address), tuple(map(_lower, topics)), _lower(data), _lower(transaction))


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ChainUnavailable("the node's answer makes no sense")
    return value


def _lower(value: Json) -> str:
    if not isinstance(value, str):
        raise ChainUnavailable("the node's answer makes no sense")
    return value.lower()


def _place(value: Json) -> int | None:
    """A place in a block; None for what makes no sense, since a payment counts without it."""
    try:
        return _quantity(value, LAST_BLOCK)
    except ChainUnavailable:
        return None


def _quantity(value: Json, most: int | None = None) -> int:
    if not isinstance(value, str) or not QUANTITY.fullmatch(value):
        raise ChainUnavailable("the node's answer makes no sense")
    number = int(value, 16)
    if most is not None and number > most:
        raise ChainUnavailable("the node's answer makes no sense")
    return number
