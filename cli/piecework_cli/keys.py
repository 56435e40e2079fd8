"""`piecework key`: wallets for signing contracts; private keys are read from files and never printed."""

import argparse
import getpass
import json
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from piecework_cli.output import PRIVATE, CommandError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

KEY: Final = re.compile(r"(0x)?[0-9a-fA-F]{64}")
DEVELOPMENT_KEY: Final = "0x" + "22" * 32  # of the wallet of `make run`; never for real money
PASSWORD: Final = "PIECEWORK_KEY_PASSWORD"  # noqa: S105  # the name of a variable


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("key", help="make and show wallets that sign contracts").add_subparsers(
        required=True, metavar="ACTION"
    )
    new = group.add_parser("new", help="write a new unencrypted key file for tests and test nets; prints the address")
    new.add_argument("file", type=Path)
    new.set_defaults(run=make)
    local = group.add_parser("local", help="write the key file of the local worker's wallet; its key is public")
    local.add_argument("file", type=Path)
    local.set_defaults(run=make_local)
    address = group.add_parser("address", help="print a key file's address")
    address.add_argument("file", type=Path)
    address.set_defaults(run=lambda options: print(address_of(read_key(options.file))))


def make(options: argparse.Namespace) -> None:
    """Write a new key to a file that must not exist, and print its address."""
    _write(options.file, "0x" + secrets.token_hex(32))


def make_local(options: argparse.Namespace) -> None:
    """Write the development key of the wallet that `make run` gives its worker, and print its address."""
    _write(options.file, DEVELOPMENT_KEY)


def _write(path: Path, key: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
    except FileExistsError:
        raise CommandError(f"{path} already exists; a key file is never overwritten") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    print(address_of(key))


def read_key(path: Path) -> str:
    """The private key of a file: plain hex, or a wallet's encrypted JSON key store.

    Raises:
        CommandError: the file does not hold a key, or the password is wrong.
    """
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"{path} cannot be read") from None
    if text.startswith("{"):
        return _decrypted(path, text)
    if not KEY.fullmatch(text):
        raise CommandError(f"{path} does not hold 64 hex digits or a key store")
    return text if text.startswith("0x") else "0x" + text


def address_of(key: str) -> str:
    """The address of a private key, with its checksum."""
    from eth_account import Account

    try:
        return str(Account.from_key(key).address)
    except ValueError:
        raise CommandError("the key is not in the range of the curve") from None


def _decrypted(path: Path, text: str) -> str:
    from eth_account import Account

    password = os.environ.get(PASSWORD) or getpass.getpass(f"password of {path}: ")
    try:
        return "0x" + bytes(Account.decrypt(json.loads(text), password)).hex()
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{path} is not a key store, or this password does not open it") from None
