"""How often operators may have a chain's node asked: each look costs calls that somebody pays for."""

from typing import Final

from piecework.errors import PieceworkError
from piecework.worker.errors import WorkerError
from piecework.worker.rates import Rate, Rates

OF_ONE_PAYMENT: Final = Rate(0.2, 5)  # looks a second, in one environment
OF_ALL: Final = Rate(1, 10)


class TooOften(PieceworkError):
    """The chain's node is asked as often as it may be."""

    code = "rate_limited"


class Asking:
    """Counts the looks of one environment."""

    def __init__(self) -> None:
        self._rates = Rates(OF_ONE_PAYMENT, OF_ALL)

    def count(self, contract_id: str) -> None:
        """Count a look at the money of a contract. Raises TooOften."""
        try:
            self._rates.count("any payment", contract_id)
        except WorkerError:
            raise TooOften("the chain's node is asked too often; wait some seconds") from None
