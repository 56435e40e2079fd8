"""The stub's chain: nonces that are spent once, transactions, and a JSON-RPC view of both.

Tests judge by it: `charges` lists the transfers that really happened. A node answers as of the requested block. It does
not know a block after its own head, which may be behind the chain's head.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
USED: Final = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
CANCELED: Final = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
STATE_SELECTOR: Final = "0xe94a0102"
BLOCK_SECONDS: Final = 2
FIRST_BLOCK_TIME: Final = 1_700_000_000
LATEST: Final = "latest"
NO_SUCH_METHOD: Final = {"code": -32601, "message": "no such method here"}
NO_SUCH_BLOCK: Final = {"code": -32000, "message": "header not found"}


class _NoSuchBlock(Exception):
    """The node has not reached this block yet."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The transfer that an authorization allows; addresses and nonce in lower case."""

    asset: str
    payer: str
    pay_to: str
    value: int
    nonce: str

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.asset, self.payer, self.nonce)


@dataclass(slots=True)
class Transaction:
    """One transaction: `kind` is used, cancelled, reverted or sent; it is in a block from `mined_at` on."""

    hash: str
    kind: str
    transfer: Transfer
    mined_at: float


@dataclass
class Ledger:
    """All transactions. `funds` holds the balances of payers whose funds are limited."""

    clock: Callable[[], float] = time.time
    funds: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def spent_by(self, transfer: Transfer) -> Transaction | None:
        """The transaction, mined or not, that spends this transfer's nonce."""
        with self._lock:
            found = (seen for seen in self.transactions.values() if seen.transfer.key == transfer.key)
            return next((seen for seen in found if seen.kind != "reverted"), None)

    def can_pay(self, transfer: Transfer) -> bool:
        return self.funds.get(transfer.payer, transfer.value) >= transfer.value

    def charge(self, transfer: Transfer, delay: float = 0.0) -> Transaction:
        """Move the money if the nonce is free and the payer can pay; otherwise the transaction reverts."""
        with self._lock:
            if self.spent_by(transfer) or not self.can_pay(transfer):
                return self.add("reverted", transfer)
            if transfer.payer in self.funds:
                self.funds[transfer.payer] -= transfer.value
            return self.add("used", transfer, delay)

    def add(self, kind: str, transfer: Transfer, delay: float = 0.0) -> Transaction:
        """Add a transaction of this kind to the chain."""
        with self._lock:
            made = Transaction(f"0x{secrets.token_hex(32)}", kind, transfer, self.clock() + delay)
            self.transactions[made.hash] = made
            return made

    def send(self, asset: str, sender: str, to: str, value: int) -> Transaction:
        """A transfer by its sender's own hand, which needs no authorization."""
        return self.add("sent", Transfer(asset.lower(), sender.lower(), to.lower(), value, ""))

    def charges(self) -> list[Transfer]:
        """All transfers that happened."""
        with self._lock:
            return [seen.transfer for seen in self.transactions.values() if seen.kind == "used"]

    def rpc(self, request: Mapping[str, Any], behind: float = 0.0) -> dict[str, Any]:
        """Answer one JSON-RPC read request, as a node that is so many seconds behind the chain."""
        with self._lock:
            now = self.clock() - behind
            mined = [seen for seen in self.transactions.values() if seen.mined_at <= now]
            return _Node(mined, _block_at(now)).answer(request)


@dataclass(frozen=True, slots=True)
class _Node:
    """The view of one node: the chain up to the node's head."""

    transactions: Sequence[Transaction]
    head: int

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        methods: Mapping[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(8453),
            "eth_getBlockByNumber": self._block,
            "eth_getTransactionReceipt": self._receipt,
            "eth_call": self._call,
            "eth_getLogs": self._logs,
        }
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        method = methods.get(str(request.get("method")))
        if method is None:
            return {**answer, "error": NO_SUCH_METHOD}
        try:
            return {**answer, "result": method(*request.get("params", ()))}
        except _NoSuchBlock:
            return {**answer, "error": NO_SUCH_BLOCK}

    def _number(self, named: str) -> int:
        number = self.head if named == LATEST else int(named, 16)
        if number > self.head:
            raise _NoSuchBlock
        return number

    def _block(self, named: str, _: bool = False) -> dict[str, str]:
        number = self._number(named)
        return {"number": hex(number), "timestamp": hex(FIRST_BLOCK_TIME + number * BLOCK_SECONDS)}

    def _receipt(self, hash_: str) -> dict[str, Any] | None:
        seen = next((seen for seen in self._until(self.head) if seen.hash == hash_), None)
        if seen is None:
            return None
        status = "0x0" if seen.kind == "reverted" else "0x1"
        block = _block_at(seen.mined_at)
        place = {"blockNumber": hex(block), "transactionIndex": hex(self._index(seen, block))}
        return {"transactionHash": hash_, **place, "status": status, "logs": _events(seen)}

    def _index(self, seen: Transaction, block: int) -> int:
        """The transaction's place in its block: in the order of time, and of what came at once, the first first."""
        beside = [one for one in self.transactions if _block_at(one.mined_at) == block]
        return [one.hash for one in sorted(beside, key=lambda one: one.mined_at)].index(seen.hash)

    def _call(self, call: Mapping[str, str], block: str) -> str:
        payer, nonce = "0x" + call["data"][34:74], "0x" + call["data"][74:]
        if not call["data"].startswith(STATE_SELECTOR):
            return "0x"
        key = (call["to"].lower(), payer, nonce)
        known = self._until(self._number(block))
        is_spent = any(seen.transfer.key == key and seen.kind != "reverted" for seen in known)
        return f"0x{int(is_spent):064x}"

    def _logs(self, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        first, last = int(wanted["fromBlock"], 16), self._number(wanted["toBlock"])
        in_range = (seen for seen in self._until(last) if first <= _block_at(seen.mined_at))
        events = (event for seen in in_range for event in _events(seen))
        return [event for event in events if _matches(event, wanted["address"].lower(), wanted["topics"])]

    def _until(self, block: int) -> list[Transaction]:
        return [seen for seen in self.transactions if _block_at(seen.mined_at) <= block]


def _block_at(seconds: float) -> int:
    """The newest block at a time."""
    return int(seconds - FIRST_BLOCK_TIME) // BLOCK_SECONDS


def _events(seen: Transaction) -> list[dict[str, Any]]:
    transfer = seen.transfer
    payer, pay_to = (f"0x{address[2:]:0>64}" for address in (transfer.payer, transfer.pay_to))
    common = {"address": transfer.asset, "transactionHash": seen.hash}
    if seen.kind == "reverted":
        return []
    if seen.kind == "cancelled":
        return [{**common, "topics": [CANCELED, payer, transfer.nonce], "data": "0x"}]
    moved = {**common, "topics": [TRANSFER, payer, pay_to], "data": f"0x{transfer.value:064x}"}
    if seen.kind == "sent":
        return [moved]
    return [{**common, "topics": [USED, payer, transfer.nonce], "data": "0x"}, moved]


def _matches(event: Mapping[str, Any], address: str, topics: Sequence[Any]) -> bool:
    return event["address"] == address and all(
        seen in (wanted if isinstance(wanted, list) else [wanted])
        for seen, wanted in zip(event["topics"], topics, strict=False)
    )
