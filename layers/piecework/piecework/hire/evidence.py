"""Asking witnesses about an unknown settlement: a chain's node, else the facilitator's `/verify` (specification 2.8).

    gather(record, chain, facilitator, now_ms) -> ChainEvidence | VerifyEvidence | None      # never raises

The latest block is read first and its time is the evidence's time. The nonce's state is asked for as of that block:
behind one address there may be several nodes, and one that lags would call a nonce unspent long after it was spent.
"""

from collections.abc import Iterator
from typing import Final

from piecework.hire.errors import WorkerError
from piecework.hire.facilitator import Facilitator
from piecework.hire.rpc import (
    AUTHORIZATION_CANCELED,
    AUTHORIZATION_USED,
    TRANSFER,
    Block,
    Chain,
    ChainUnavailable,
    Receipt,
    word,
)
from piecework.hire.settlement import ChainEvidence, Unsettled, VerifyEvidence
from piecework.hire.terms import LONGEST_SECONDS

BLOCK_SECONDS: Final = 2  # Base makes one every two seconds
PAGE_BLOCKS: Final = 2_000  # what public nodes answer logs for in one call
SEARCH_MARGIN_SECONDS: Final = 3_600  # blocks older than the authorization can be, for clocks that differ


def gather(
    record: Unsettled, chain: Chain | None, facilitator: Facilitator, now_ms: int
) -> ChainEvidence | VerifyEvidence | None:
    """What can be found out now; None when no witness answers. A node, where there is one, is the only witness."""
    try:
        if chain is not None:
            return chain_evidence(record, chain, now_ms)
        return VerifyEvidence(facilitator.verify(record.payment, record.terms))
    except (ChainUnavailable, WorkerError):
        return None


def chain_evidence(record: Unsettled, chain: Chain, now_ms: int) -> ChainEvidence:
    """What the chain says.

    Raises:
        ChainUnavailable: the node does not answer.
    """
    latest = chain.latest()
    receipts = {transaction: chain.receipt(transaction) for transaction in record.hashes}
    paid = next((hash_ for hash_, receipt in receipts.items() if receipt and pays(receipt, record)), None)
    if paid:
        return ChainEvidence(nonce_spent=True, chain_seconds=latest.seconds, paid=paid)
    signed, asset = record.payment.authorization, record.terms.network.usdc
    if chain.nonce_spent(asset, signed.from_, signed.nonce, latest.number):
        return _spent(record, chain, latest, now_ms)
    return ChainEvidence(
        nonce_spent=False,
        chain_seconds=latest.seconds,
        pending=frozenset(hash_ for hash_, receipt in receipts.items() if receipt is None),
        reverted=frozenset(hash_ for hash_, receipt in receipts.items() if receipt and not receipt.succeeded),
    )


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


def _spent(record: Unsettled, chain: Chain, latest: Block, now_ms: int) -> ChainEvidence:
    """The nonce is used or cancelled: its log says which, and used must come with the transfer."""
    signed, asset = record.payment.authorization, record.terms.network.usdc
    end = chain.latest()  # the log may be in a block newer than the first one read
    for first, last in _pages(record, end, now_ms):
        for log in chain.nonce_logs(asset, signed.from_, signed.nonce, first, last):
            if log.topics[0] == AUTHORIZATION_CANCELED:
                return ChainEvidence(nonce_spent=True, chain_seconds=latest.seconds, cancelled=True)
            receipt = chain.receipt(log.transaction)
            if receipt and pays(receipt, record):
                return ChainEvidence(nonce_spent=True, chain_seconds=latest.seconds, paid=log.transaction)
    return ChainEvidence(nonce_spent=True, chain_seconds=latest.seconds)


def _pages(record: Unsettled, latest: Block, now_ms: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks in which the authorization can have been spent, newest first."""
    since = record.since_ms // 1000 or record.payment.authorization.valid_before - LONGEST_SECONDS
    oldest = since - SEARCH_MARGIN_SECONDS
    seconds = max(latest.seconds, now_ms // 1000) - oldest
    lowest = max(0, latest.number - seconds // BLOCK_SECONDS)
    last = latest.number
    while last >= lowest:
        yield max(lowest, last - PAGE_BLOCKS + 1), last
        last -= PAGE_BLOCKS
