"""Numbers that keep their original text, because kernels hash and measure that text.

Kernels built since July 2026 keep the text of every number in a free-form value: `1.50` stays `1.50`, and 2^64 does not
become a double (runtime specification 0.2 as amended). Python's own numbers do not keep it, so a number whose text is
not canonical is read as a `WrittenFloat` or a `WrittenInt`: for an executor a usual number, with its `text`.
"""

import marshal
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

I64_MIN: Final = -(2**63)
U64_MAX: Final = 2**64 - 1
SAFE_INTEGER_DIGITS: Final = 18  # any integer of this many characters fits i64, so no range check is needed
MAX_TEXT: Final = 65_536  # characters of one number; a candidate may not be larger
PYTHON_DIGITS: Final = 4_300  # Python refuses longer integers, because they take quadratic time
MAX_NESTING: Final = 1_000  # containers that a value may nest where the interpreter would not stop
PLAIN_MARSHAL: Final = 2  # the version without references, whose look-up costs time for each value
MAX_EXPONENT_DIGITS: Final = 15  # more is beyond `Decimal`, and beyond any useful number


class WrittenFloat(float):
    """A number with its text: not in a double's canonical form, or beyond a double (then the value is infinity)."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "WrittenFloat":
        made = super().__new__(cls, text)
        made.text = _canonical_text(text)
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # a copy is made of the text
        return ("-0" if self.text == "0" else self.text,)


class WrittenInt(int):
    """An integer beyond 64 bits; its text is its digits."""

    @property
    def text(self) -> str:
        return int.__repr__(self)


def read_integer(text: str) -> int | float:
    """The integer of a JSON text. `-0` is kept apart: `0` to newer kernels, the double `-0.0` to older ones.

    Raises:
        ValueError: it is over `MAX_TEXT` characters.
    """
    if len(text) <= SAFE_INTEGER_DIGITS:
        return WrittenFloat(text) if text == "-0" else int(text)
    if len(text) > PYTHON_DIGITS:
        return WrittenFloat(_bounded(text))
    value = int(text)
    return value if I64_MIN <= value <= U64_MAX else WrittenInt(value)


def read_double(text: str) -> float:
    """The number of a JSON text with a point or an exponent: a plain double if the text is its canonical form.

    Raises:
        ValueError: it is over `MAX_TEXT` characters, or its exponent over `MAX_EXPONENT_DIGITS`.
    """
    value = float(text)
    written = float.__repr__(value)
    if written == text and "e-0" not in text:
        return value
    kept = WrittenFloat(_bounded(text))
    return value if value - value == 0.0 and double_text(value) == kept.text else kept


def holds_written(value: Any) -> bool:
    """Whether a value holds a number that keeps its text, at any depth.

    Raises:
        ValueError: it nests more than `MAX_NESTING` containers, or holds itself.
    """
    try:
        marshal.dumps(value, PLAIN_MARSHAL)  # accepts only plain types, and takes a tenth of the time of writing
    except ValueError:
        return _finds_written(value)
    return False


def _finds_written(value: Any) -> bool:
    waiting = [(value, 0)]
    while waiting:
        found, depth = waiting.pop()
        if isinstance(found, WrittenFloat | WrittenInt):
            return True
        if depth > MAX_NESTING:
            raise ValueError(f"a value nests more than {MAX_NESTING} containers")
        if isinstance(found, dict):
            waiting.extend((member, depth + 1) for member in found.values())
        elif isinstance(found, list | tuple):
            waiting.extend((item, depth + 1) for item in found)
    return False


def with_numbers(value: Any, made: Callable[[Any], Any]) -> Any:
    """A copy of a value in which `made` replaces each number that keeps its text."""
    if isinstance(value, WrittenFloat | WrittenInt):
        return made(value)
    if isinstance(value, dict):
        return {name: with_numbers(member, made) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [with_numbers(item, made) for item in value]
    return value


def exact(number: WrittenFloat | WrittenInt) -> int | float | Decimal:
    """The same number in a plain type that holds it exactly: a double where that is enough."""
    if isinstance(number, WrittenInt):
        return int(number)
    return float(number) if is_exact(number) else Decimal(number.text)


def as_decimal(number: int | float) -> Decimal:
    """The number as a decimal, from its original text, else from its shortest."""
    if isinstance(number, WrittenFloat):
        return Decimal(number.text)
    return Decimal(number) if isinstance(number, int) else Decimal(float.__repr__(number))


def is_exact(number: WrittenFloat) -> bool:
    """Whether a double's shortest form is exactly the number of the text, however that is written."""
    value = float(number)
    return value - value == 0.0 and Decimal(float.__repr__(value)) == Decimal(number.text)


def double_text(value: float) -> str:
    """A double in canonical form: the shortest digits, positional for decimal exponents -5 to 15.

    Raises:
        ValueError: it is NaN or an infinity.
    """
    if value - value != 0.0:
        raise ValueError("NaN and infinity are not JSON")
    text = float.__repr__(value)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    if int(exponent) == -5:  # Python switches to exponents one decade earlier than the kernel's codec
        sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{mantissa}e{int(exponent):+d}"


def _canonical_text(text: str) -> str:
    """The text as newer kernels keep it: a lower-case `e`, a sign after it, and the integer zero without a minus."""
    if text == "-0":
        return "0"
    mantissa, mark, exponent = text.replace("E", "e").partition("e")
    signed = exponent if exponent.startswith(("+", "-")) else f"+{exponent}"
    return f"{mantissa}e{signed}" if mark else mantissa


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"a number is over {MAX_TEXT} characters")
    if len(text.lower().rpartition("e")[2].lstrip("+-0")) > MAX_EXPONENT_DIGITS and "e" in text.lower():
        raise ValueError(f"a number has an exponent of over {MAX_EXPONENT_DIGITS} digits")
    return text
