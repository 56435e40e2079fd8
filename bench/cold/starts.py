"""Cold starts: from the start of a handler's process to its first call for work (INIT), and to its first answer.

The processes are awslambdaric's, as on Lambda, and their AWS speaks TLS. Handlers alternate round by round, so that a
busy moment hits them all.
"""

import json
import queue
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.cold.certificates import make_authority
from bench.cold.stubs import Aws, RuntimeApi, serving
from bench.contenders import TOKENS, Contender, environment, event, fresh
from bench.processes import cpu_ms, resident_mb
from bench.scratch import Scratch

WAIT_SECONDS: Final = 60
POLL_SECONDS: Final = 1.0
IN_A_ROW: Final = ("execute", "kernel")  # the functions whose callers wait most
Entrant = tuple[Scratch, Contender]


class BenchFailed(Exception):
    """A contender did not do its job, so its times do not count."""


class Start(NamedTuple):
    """One cold start: milliseconds until it asked for work, of them of processor time, and from then until its answer.

    `memory` is what the process then holds, in MB.
    """

    cold: float
    cpu: float
    first: float
    memory: float


def measure(entrants: Sequence[Entrant], rounds: int) -> Mapping[str, list[Start]]:
    """The cold starts of every contender, after one round that only warms the disk's cache."""
    found: dict[str, list[Start]] = defaultdict(list)
    with aws() as variables:
        for entrant in entrants:
            start(*entrant, variables)
        for _ in range(rounds):
            for scratch, contender in entrants:
                found[contender.name].append(start(scratch, contender, variables))
    return found


@contextmanager
def aws() -> Iterator[Mapping[str, str]]:
    """An AWS over TLS; yields the variables by which processes find and verify it."""
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority(Path(folder))
        stub = Aws(authority.context(), TOKENS)
        with serving(stub):
            yield {"AWS_ENDPOINT_URL": stub.url, "AWS_CA_BUNDLE": str(authority.bundle)}


def start(scratch: Scratch, contender: Contender, variables: Mapping[str, str]) -> Start:
    """Start a process, send it one event, end it.

    Raises:
        BenchFailed: the answer is not the expected one.
    """
    api = RuntimeApi(json.dumps(fresh(event(contender.event))).encode("utf-8"))
    runtime = {"AWS_LAMBDA_RUNTIME_API": api.address, "_HANDLER": contender.handler}
    env = {**environment(scratch, contender.code), **variables, **runtime}
    with serving(api):
        began = time.perf_counter()
        process = subprocess.Popen(
            (sys.executable, "-S", "-m", "awslambdaric", contender.handler),
            env=env,
            cwd=scratch.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            asked, said = _mark(api, process)
            cpu = cpu_ms(process.pid)
            if said:
                raise BenchFailed(f"{contender.name} did not start: {said[:500]!r}")
            answered, answer = _mark(api, process)
            memory = resident_mb(process.pid)
        finally:
            process.kill()
            process.wait()
    name, expected = contender.answers
    if json.loads(answer).get(name) != expected:
        raise BenchFailed(f"{contender.name} answered {answer[:500]!r}")
    return Start((asked - began) * 1000, cpu, (answered - asked) * 1000, memory)


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
