"""Evidence about an unknown settlement: what was read, and the chain's time that it is true of (specification 2.8).

    gather(record, chain, facilitator, now_ms) -> Evidence | None      # never raises
    evidence.why_stale(record, now_ms) -> str | None                   # why it counts for nothing that may still change

What is on the chain stays there: a transfer, a cancellation and a used nonce count from however old a block. That
something is *not* there can change with the next block: it counts only if the evidence is fresh, which means that its
block is at least as new as the last `/settle` and as every receipt that was seen, and not far behind the clock.

    | evidence                                                      | fresh         | not fresh |
    |---------------------------------------------------------------|---------------|-----------|
    | node: a transaction used the nonce and moved the price to us  | paid          | paid      |
    | node: the nonce was cancelled                                 | not paid      | not paid  |
    | node: the nonce is spent, and no such log is found            | wait          | wait      |
    | node: unspent, a minute after the authorization's end         | not paid      | wait      |
    | node: unspent, a named transaction did not fail (or not yet)  | wait          | wait      |
    | node: unspent, every named transaction failed, and it was     | not paid      | wait      |
    |   read two minutes after the last call that named none        |               |           |
    | node: unspent, and no transaction was ever named              | settle again  | wait      |
    | `/verify`: the nonce is used                                  | unconfirmed   | the same  |
    | `/verify`: valid                                              | settle again  | wait      |
    | `/verify`: funds missing, nonce unused, a minute after the end| not paid      | wait      |
    | `/verify`: anything else                                      | wait          | wait      |
    | nobody could be asked                                         | –             | wait      |

A wait whose time is up is unresolved. `/verify` is asked on testnets alone: for real money only the chain is a witness,
since a facilitator does not tell a used nonce from one that its payer cancelled.

The latest block is read first, and the nonce's state is asked for as of that block: behind one address there may be
several nodes, and one that lags would call a nonce unspent long after it was spent.
"""

from collections.abc import Iterator
from typing import Final

from piecework.values import dataclass
from piecework.worker.chain.rpc import (
    AUTHORIZATION_CANCELED,
    AUTHORIZATION_USED,
    TRANSFER,
    Block,
    Chain,
    ChainUnavailable,
    Receipt,
    word,
)
from piecework.worker.errors import WorkerError
from piecework.worker.payment.facilitator import Facilitator, Verdict
from piecework.worker.payment.payments import Payment
from piecework.worker.payment.terms import LONGEST_SECONDS, PaymentTerms

BLOCK_SECONDS: Final = 2  # Base makes one every two seconds
PAGE_BLOCKS: Final = 2_000  # what public nodes answer logs for in one call
SEARCH_MARGIN_SECONDS: Final = 3_600  # blocks older than the authorization can be, for clocks that differ
MOST_BEHIND_SECONDS: Final = 60  # of the clock; a node at the chain's head is a few seconds behind


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A settlement whose outcome is unknown: what was sent, and every hash that any answer named."""

    payment: Payment
    terms: PaymentTerms
    hashes: tuple[str, ...] = ()
    last_call_without_hash_ms: int | None = None  # when the last `/settle` that named no hash was sent
    funds_missing_ms: int | None = None  # when `/verify` last said so with the nonce unused
    since_ms: int = 0  # when the task was claimed: its payer may let an authorization live for years
    last_call_ms: int = 0  # when the last `/settle` was sent


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one look read of one authorization, and the time that it is true of.

    `seconds` is the time of the block that everything was read at. A facilitator's `verdict` names no block (`block` is
    None): it is taken for as old as the node behind it may be.
    """

    seconds: int
    block: int | None = None
    newest_receipt: int = 0  # the newest block that a receipt was seen in
    nonce_spent: bool = False
    paid: str | None = None  # the transaction whose receipt holds our transfer
    cancelled: bool = False
    reverted: frozenset[str] = frozenset()  # of the hashes that were named
    verdict: Verdict | None = None

    def why_stale(self, record: Unsettled, now_ms: int) -> str | None:
        """Why what is absent here may be there by now; None if the evidence is fresh."""
        if self.seconds < now_ms // 1000 - MOST_BEHIND_SECONDS:
            return "what was read is far behind the clock"
        if self.seconds * 1000 < record.last_call_ms:
            return "what was read is older than the last call to settle"
        if self.block is not None and self.block < self.newest_receipt:
            return "what was read is older than a receipt that was seen"
        return None


def gather(record: Unsettled, chain: Chain | None, facilitator: Facilitator, now_ms: int) -> Evidence | None:
    """What can be found out now; None when no witness answers. A node, where there is one, is the only witness."""
    try:
        if chain is not None:
            return chain_evidence(record, chain, now_ms)
        if not record.terms.network.is_testnet:
            return None
        verdict = facilitator.verify(record.payment, record.terms)
        return Evidence(now_ms // 1000 - MOST_BEHIND_SECONDS, verdict=verdict)
    except (ChainUnavailable, WorkerError):
        return None


def chain_evidence(record: Unsettled, chain: Chain, now_ms: int) -> Evidence:
    """What the chain says.

    Raises:
        ChainUnavailable: the node does not answer.
    """
    latest = chain.latest()
    receipts = {transaction: chain.receipt(transaction) for transaction in record.hashes}
    seen = {hash_: receipt for hash_, receipt in receipts.items() if receipt is not None}
    newest = max((receipt.block for receipt in seen.values()), default=0)
    paid = next((hash_ for hash_, receipt in seen.items() if pays(receipt, record)), None)
    if paid:
        return Evidence(latest.seconds, latest.number, newest, nonce_spent=True, paid=paid)
    signed, asset = record.payment.authorization, record.terms.network.usdc
    if chain.nonce_spent(asset, signed.from_, signed.nonce, latest.number):
        return _spent(record, chain, latest, now_ms)
    reverted = frozenset(hash_ for hash_, receipt in seen.items() if not receipt.succeeded)
    return Evidence(latest.seconds, latest.number, newest, reverted=reverted)


def pays(receipt: Receipt, record: Unsettled) -> bool:
    """Whether a transaction spent this nonce and moved the price from the payer to us, in the token we ask for.

    The nonce belongs to it: another payment of the same price between the same two would look alike.
    """
    signed, terms = record.payment.authorization, record.terms
    payer = "0x" + word(signed.from_)
    transfer = ((TRANSFER, payer, "0x" + word(terms.pay_to)), f"0x{terms.atomic:064x}")
    used = (AUTHORIZATION_USED, payer, "0x" + word(signed.nonce))
    logs = [log for log in receipt.logs if log.address == terms.network.usdc.lower()]
    moved = any((log.topics, log.data) == transfer for log in logs)
    return receipt.succeeded and moved and any(log.topics == used for log in logs)


def _spent(record: Unsettled, chain: Chain, latest: Block, now_ms: int) -> Evidence:
    """The nonce is used or cancelled: its log says which, and used must come with the transfer."""
    signed, asset = record.payment.authorization, record.terms.network.usdc
    end = chain.latest()  # the log may be in a block newer than the first one read
    for first, last in _pages(record, end, now_ms):
        for log in chain.nonce_logs(asset, signed.from_, signed.nonce, first, last):
            if log.topics[0] == AUTHORIZATION_CANCELED:
                return Evidence(latest.seconds, latest.number, nonce_spent=True, cancelled=True)
            receipt = chain.receipt(log.transaction)
            if receipt and pays(receipt, record):
                return Evidence(latest.seconds, latest.number, receipt.block, nonce_spent=True, paid=log.transaction)
    return Evidence(latest.seconds, latest.number, nonce_spent=True)


def _pages(record: Unsettled, latest: Block, now_ms: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks in which the authorization can have been spent, each part newest first.

    A transfer can only stand in its lifetime, which may be over for long; behind its end it can only be cancelled.
    """
    ends = record.payment.authorization.valid_before
    oldest = (record.since_ms // 1000 or ends - LONGEST_SECONDS) - SEARCH_MARGIN_SECONDS
    now = min(max(latest.seconds, now_ms // 1000), now_ms // 1000 + LONGEST_SECONDS)  # whatever a node calls its time
    lowest = max(0, latest.number - (now - oldest) // BLOCK_SECONDS)
    over = max(0, latest.seconds - ends - SEARCH_MARGIN_SECONDS) // BLOCK_SECONDS  # blocks since its end
    last = max(lowest - 1, latest.number - over)
    yield from _down(lowest, last)
    yield from _down(last + 1, latest.number)


def _down(lowest: int, last: int) -> Iterator[tuple[int, int]]:
    while last >= lowest:
        yield max(lowest, last - PAGE_BLOCKS + 1), last
        last -= PAGE_BLOCKS
