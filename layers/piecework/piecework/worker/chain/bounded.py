"""A chain that is asked within bounds, for somebody who waits for the answer."""

from collections.abc import Callable, Sequence
from time import monotonic

from piecework.worker.chain.rpc import CALL_SECONDS, Block, Chain, ChainUnavailable, Log, Receipt


class BoundedChain(Chain):
    """Passes so many calls on, and none after so many seconds; each further one raises ChainUnavailable."""

    def __init__(self, chain: Chain, calls: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._chain, self._calls, self._ends, self._clock = chain, calls, clock() + seconds, clock

    def latest(self) -> Block:
        return self._asked().latest()

    def receipt(self, transaction: str, seconds: float = CALL_SECONDS) -> Receipt | None:
        return self._asked().receipt(transaction, seconds)

    def nonce_spent(self, asset: str, payer: str, nonce: str, block: int) -> bool:
        return self._asked().nonce_spent(asset, payer, nonce, block)

    def nonce_logs(self, asset: str, payer: str, nonce: str, first: int, last: int) -> Sequence[Log]:
        return self._asked().nonce_logs(asset, payer, nonce, first, last)

    def _asked(self) -> Chain:
        if self._calls <= 0 or self._clock() >= self._ends:
            raise ChainUnavailable("the node was asked for as long, or as often, as it may be")
        self._calls -= 1
        return self._chain
