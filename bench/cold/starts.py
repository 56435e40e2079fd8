"""Cold starts: from the start of a handler's process to its first call for work (INIT), and to its first answer.

The processes are awslambdaric's, as on Lambda. Handlers alternate round by round, so that a busy moment hits them all.
"""

import json
import queue
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.cold.stubs import RuntimeApi, serving, yes_to_all
from bench.contenders import COLD, Contender, environment, event, fresh
from bench.scratch import Scratch

WAIT_SECONDS: Final = 60
POLL_SECONDS: Final = 1.0


class BenchFailed(Exception):
    """A contender did not do its job, so its times do not count."""


@dataclass(frozen=True, slots=True)
class Start:
    """One cold start in milliseconds: until it asked for work, and from then until its answer."""

    init: float
    first: float


def measure(scratch: Scratch, rounds: int) -> Mapping[str, list[Start]]:
    """The cold starts of every contender, after one round that only warms the disk's cache."""
    found: dict[str, list[Start]] = defaultdict(list)
    with serving(yes_to_all()) as aws:
        for contender in COLD:
            start(scratch, contender, f"http://{aws.address}")
        for _ in range(rounds):
            for contender in COLD:
                found[contender.name].append(start(scratch, contender, f"http://{aws.address}"))
    return found


def start(scratch: Scratch, contender: Contender, endpoint: str) -> Start:
    """Start a process, send it one event, end it.

    Raises:
        BenchFailed: the answer is not the expected one.
    """
    payload = json.dumps(fresh(event(contender.request)))
    api = RuntimeApi(payload.encode("utf-8"))
    with serving(api):
        variables = environment(scratch, contender.code, endpoint) | {"AWS_LAMBDA_RUNTIME_API": api.address}
        began = time.perf_counter()
        process = subprocess.Popen(
            (sys.executable, "-S", "-m", "awslambdaric", contender.handler),
            env=variables | {"_HANDLER": contender.handler},
            cwd=scratch.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            asked, said = _mark(api, process)
            if said:
                raise BenchFailed(f"{contender.name} did not start: {said[:500]!r}")
            answered, answer = _mark(api, process)
        finally:
            process.kill()
            process.wait()
    if json.loads(answer).get("statusCode") != contender.status:
        raise BenchFailed(f"{contender.name} answered {answer[:500]!r}")
    return Start((asked - began) * 1000, (answered - asked) * 1000)


def _mark(api: RuntimeApi, process: subprocess.Popen[bytes]) -> tuple[float, bytes]:
    """The next action of the process.

    Raises:
        BenchFailed: it ended, or time is up.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return api.marks.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchFailed("a handler's process ended or hung before its answer") from None
