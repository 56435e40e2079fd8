"""What commands print and write: JSON for people, and files that are written whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Final

from piecework.errors import PieceworkError
from piecework.jsons import Json, loads

PRIVATE: Final = 0o600


class CommandError(PieceworkError):
    """A command cannot do its work; the message says what to change."""

    code = "command"


def show(value: Json) -> None:
    """Print a JSON value, indented, with its members in their order."""
    print(text_of(value), end="")


def text_of(value: Json) -> str:
    """A JSON value as a file holds it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def printable(text: str) -> str:
    """A text whose control characters cannot act on a terminal."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def read_json(path: Path) -> Json:
    """A file's JSON value.

    Raises:
        CommandError: it cannot be read.
        BadRequest: it is not strict JSON.
    """
    try:
        return loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole; only its owner may read it."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), PRIVATE)
            file.write(text)
        os.replace(name, path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
