"""The output of a function whose log another function reads: it goes to ours, and into a group of the embedded AWS.

On AWS, Lambda does that. As there, the group has a line a moment after it was written. A line that cannot be stored is
lost for readers, and stands in our output all the same.
"""

import contextlib
import os
import sys
import time
import uuid
from collections import deque
from threading import Event, Thread
from typing import IO, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from local.aws import client

PAUSE_SECONDS: Final = 0.2  # between two looks for lines; one request carries all of that time
MOST_WAITING: Final = 20_000  # lines; the oldest are dropped where AWS is out of reach
MOST_AT_ONCE: Final = 1_000  # lines of one request
LONGEST_LINE: Final = 250_000  # characters; CloudWatch takes lines of a quarter of a megabyte


class LogGroup:
    """Takes the lines of one function's processes, which write to `pipe`."""

    def __init__(self, name: str, endpoint: str) -> None:
        self._name, self._endpoint = name, endpoint
        self._stream = f"local/{uuid.uuid4()}"
        self._lines: deque[tuple[int, str]] = deque(maxlen=MOST_WAITING)
        self._closing = Event()
        reader, writer = os.pipe()
        self._reader: IO[bytes] = os.fdopen(reader, "rb")
        self.pipe: IO[bytes] = os.fdopen(writer, "wb")
        self._threads = [Thread(target=target, daemon=True) for target in (self._take, self._store)]

    def open(self) -> None:
        """Begin to take lines."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Store what has come, after the processes have ended."""
        self._closing.set()
        self.pipe.close()
        for thread in self._threads:
            thread.join(timeout=2)

    def _take(self) -> None:
        for raw in self._reader:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
            if text := raw.decode(errors="replace").strip("\n"):
                self._lines.append((time.time_ns() // 1_000_000, text[:LONGEST_LINE]))

    def _store(self) -> None:
        logs: Any = None  # made when there is something to store
        is_made = False
        while not self._closing.wait(PAUSE_SECONDS) or self._lines:
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_AT_ONCE))]
            if not lines:
                continue
            logs = logs or client("logs", self._endpoint)
            with contextlib.suppress(ClientError, BotoCoreError):
                is_made = is_made or self._make(logs)
                events = [{"timestamp": at_ms, "message": text} for at_ms, text in lines]
                logs.put_log_events(logGroupName=self._name, logStreamName=self._stream, logEvents=events)

    def _make(self, logs: Any) -> bool:
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=self._name)
        logs.create_log_stream(logGroupName=self._name, logStreamName=self._stream)
        return True
