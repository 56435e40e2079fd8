"""Readers of open streams, counted where every environment sees them: so many of one contract, so many of the door.

On Lambda an open stream holds an environment until it ends, also after its reader has left, and each environment serves
one. So what an environment remembers counts nothing; each reader takes a numbered seat in the table instead:

    contract   seats 0 … 3    taken before a reader waits, and given back when its stream ends
    door       seats 0 … 99   the same; a seat whose environment died is free again when its stream would have ended
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from piecework.chance import choice
from piecework.values import dataclass
from piecework.worker.errors import WorkerError

PER_CONTRACT: Final = 4  # a page, a command line, and their successors while the old connection is still held
PER_DOOR: Final = 100  # a tenth of the concurrency that an account is given as a rule
DOOR: Final = "door"  # no contract id looks like this
TRIES: Final = 5  # a seat that others take first costs another look
COME_BACK_SECONDS: Final = "5"


@dataclass(frozen=True, slots=True)
class Seat:
    """One place, held by a token until a time."""

    scope: str
    number: int
    token: str
    until_s: int


class Seats(Protocol):
    """Keeps who holds which seat."""

    def taken(self, scope: str) -> Mapping[int, int]:
        """The seats that were taken, with the time until which each is held; strongly consistent."""

    def take(self, seat: Seat, now_s: int) -> bool:
        """Take a seat that nobody holds now; False when another reader holds it."""

    def leave(self, seat: Seat) -> None:
        """Give a seat back, if it is still held by its token."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Lets readers in; a stream holds what `enter` gives until it calls `leave`."""

    seats: Seats
    clock: Callable[[], int]  # epoch milliseconds
    seconds: int  # the longest that a stream may last
    per_contract: int = PER_CONTRACT
    per_door: int = PER_DOOR
    token: Callable[[], str] = lambda: secrets.token_hex(8)

    def enter(self, contract_id: str) -> tuple[Seat, ...]:
        """Take a seat of the contract and one of the door.

        Raises:
            WorkerError: RATE_LIMITED; every seat is taken.
            Unavailable: the table is out of reach.
        """
        own = self._seat(contract_id, self.per_contract)
        if own is None:
            raise _full(f"this contract has {self.per_contract} open streams; close one, or poll its task")
        door = self._seat(DOOR, self.per_door)
        if door is None:
            self.seats.leave(own)
            raise _full("every stream of this worker is taken; poll the task, or come back")
        return own, door

    def leave(self, held: tuple[Seat, ...]) -> None:
        """Give the seats back."""
        for seat in held:
            self.seats.leave(seat)

    def _seat(self, scope: str, most: int) -> Seat | None:
        now_s, token = self.clock() // 1000, self.token()
        for _ in range(TRIES):
            taken = self.seats.taken(scope)
            free = [number for number in range(most) if taken.get(number, 0) <= now_s]
            if not free:
                return None
            seat = Seat(scope, choice(free), token, now_s + self.seconds)  # spreads the readers
            if self.seats.take(seat, now_s):
                return seat
        return None


def _full(message: str) -> WorkerError:
    return WorkerError("RATE_LIMITED", message, headers={"Retry-After": COME_BACK_SECONDS})
