"""Prepares an executor's output for sending: every reader must read exactly the returned value.

Kernels differ in how they read a number (see `jsons`), so an output holds only 64-bit integers and doubles, each in
canonical form. A number that is neither is refused with its place; it is never rounded. One member's name is refused
too, because the codec of newer kernels marks its own numbers with it. Runtime specification 0.2 as amended.
"""

from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import MAX_DEPTH_IN, Json, canonical, check_depth, loads_exact
from piecework.jsons.numerals import WrittenFloat, WrittenInt, holds_written, is_exact

KERNEL_NUMBER: Final = "$serde_json::private::Number"
RESERVED_NAME: Final = f'the output holds a member named "{KERNEL_NUMBER}", which kernels read as a number'
NEITHER: Final = (
    "is neither a 64-bit integer nor exactly a double; "
    "write it with at most 15 significant digits, or return it as a text"
)
MAX_PLACE: Final = 120  # characters of a place in a message


class Unsendable(ValueError):
    """The value cannot be sent; the text says why and where, and never shows a value."""


def sendable(value: Json, levels: int = MAX_DEPTH_IN) -> tuple[Json, bytes]:
    """The value as readers get it (tuples become lists), and its canonical bytes.

    `levels` is how many containers it may nest: for a kernel, `MAX_DEPTH_READ` minus the containers around it.

    Raises:
        Unsendable: it is not JSON, nests too deep, or holds a number or a name that readers read differently.
    """
    return settled(written(value, levels), levels)


def written(value: Json, levels: int = MAX_DEPTH_IN) -> bytes:
    """The canonical bytes of a returned value. Raises Unsendable when it is not JSON."""
    try:
        return canonical(value)
    except ValueError:
        raise Unsendable(_not_json(levels)) from None


def settled(raw: bytes, levels: int = MAX_DEPTH_IN) -> tuple[Json, bytes]:
    """The value of these canonical bytes, and the bytes to send. Raises Unsendable as `sendable`."""
    try:
        check_depth(raw, levels)
        read = loads_exact(raw)
    except BadRequest:
        raise Unsendable(_not_json(levels)) from None
    if holds_written(read):
        read = _settled(read, "output")
        raw = canonical(read)
    if KERNEL_NUMBER.encode() in raw and holds_kernel_number(read):
        raise Unsendable(RESERVED_NAME)
    return read, raw


def _not_json(levels: int) -> str:
    return f"the output is not JSON of at most {levels} levels"


def _settled(value: Json, place: str) -> Json:
    if isinstance(value, dict):
        return {name: _settled(member, f"{place}.{name}"[:MAX_PLACE]) for name, member in value.items()}
    if isinstance(value, list):
        return [_settled(item, f"{place}[{index}]"[:MAX_PLACE]) for index, item in enumerate(value)]
    if isinstance(value, WrittenInt) or (isinstance(value, WrittenFloat) and not is_exact(value)):
        raise Unsendable(f"the number at {place} {NEITHER}")
    return float(value) if isinstance(value, WrittenFloat) else value


def holds_kernel_number(value: Json) -> bool:
    """Whether a member at any depth has the name with which newer kernels mark their numbers."""
    if isinstance(value, dict):
        return KERNEL_NUMBER in value or any(map(holds_kernel_number, value.values()))
    return isinstance(value, list) and any(map(holds_kernel_number, value))
