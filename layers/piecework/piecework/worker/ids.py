"""Ids of the worker door: checked before any look-up or log line, made from enough random bits to be capabilities."""

import re
import secrets
from typing import Final

from piecework.worker.errors import WorkerError

CONTRACT_ID: Final = re.compile(r"ctr_[A-Za-z0-9_-]{1,60}")
TASK_ID: Final = re.compile(r"task_[A-Za-z0-9]{22,40}")
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no letters that look like digits
_LENGTH: Final = 26  # 130 random bits


def contract_id(text: str) -> str:
    """The text, if it is a contract id.

    Raises:
        WorkerError: INVALID_REQUEST; the text is not shown.
    """
    if not CONTRACT_ID.fullmatch(text):
        raise WorkerError("INVALID_REQUEST", "the contract id (X-Contract-ID) must match ctr_[A-Za-z0-9_-]{1,60}")
    return text


def task_id(text: str) -> str:
    """The text, if it is a task id.

    Raises:
        WorkerError: TASK_NOT_FOUND, as for every other task that is not there.
    """
    if not TASK_ID.fullmatch(text):
        raise WorkerError("TASK_NOT_FOUND", "no such task")
    return text


def new_task_id() -> str:
    """A fresh task id; anybody who knows it and its contract may read the task."""
    return f"task_{_random()}"


def new_request_id() -> str:
    """A fresh request id."""
    return _random()


def _random() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
