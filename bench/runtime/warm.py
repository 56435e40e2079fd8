"""Warm cost per call without AWS, in a separate process: `python -m bench.runtime.warm OUT ROUNDS CALLS`.

All contenders are in this one process and take turns; their logs go to its standard output, which the caller ignores.
Each call is a fresh piece, so recorded answers are not used.
"""

import gc
import importlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.contenders import EXECUTE, VERIFY, event, fresh
from bench.runtime.fakes import Context, MemoryPersistence, MemoryTable, NoBucket

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
CONTEXT = Context()


def handlers() -> Mapping[tuple[str, str], Handler]:
    """The handlers by contender and request, with fakes in place of AWS."""
    baseline = importlib.import_module("idiomatic_powertools")
    baseline.use_store(MemoryPersistence())
    fastapi = importlib.import_module("fastapi_mangum")
    return {
        ("piecework", "execute"): own_execute(),
        ("powertools", "execute"): baseline.EXECUTE,
        ("fastapi", "execute"): fastapi.EXECUTE,
        ("piecework", "verify"): importlib.import_module("runtime.verify.app").handler,
        ("powertools", "verify"): baseline.VERIFY,
        ("fastapi", "verify"): fastapi.VERIFY,
    }


def own_execute() -> Handler:
    """Our handler with fakes."""
    from piecework.clock import now_in_ms
    from piecework.durable.pieces import Pieces
    from piecework.extend.manifest import Bundle, load
    from piecework.runtime.execute.flow import Execute

    app: Any = importlib.import_module("runtime.execute.app")
    table, bucket, telemetry = MemoryTable(), NoBucket(), app.door.telemetry
    vars(app.door)["execute"] = Execute(
        bundle=Bundle(load(), "echo"),
        pieces=Pieces(table, bucket),
        steps=table,
        evidence=bucket,
        producer="piecework",
        clock=now_in_ms,
        expires_at=lambda: now_in_ms() // 1000 + 86_400,
        log=telemetry,
    )
    handler: Handler = app.handler
    return handler


def time_calls(handler: Handler, events: list[dict[str, Any]]) -> float:
    """Microseconds per call."""
    gc.collect()
    began = time.process_time()
    for one in events:
        handler(one, CONTEXT)
    return (time.process_time() - began) * 1e6 / len(events)


def measure(rounds: int, calls: int) -> dict[str, list[float]]:
    """Microseconds per call of every contender and request, by round."""
    examples = {"execute": event(EXECUTE), "verify": event(VERIFY)}
    found: dict[str, list[float]] = defaultdict(list)
    contenders = handlers()
    for (contender, request), handler in contenders.items():
        answer = handler(fresh(examples[request]), CONTEXT)
        if answer["statusCode"] != 200:
            raise SystemExit(f"{contender} {request} answered {answer['statusCode']}: {answer['body'][:500]}")
        time_calls(handler, [fresh(examples[request]) for _ in range(calls)])
    for _ in range(rounds):
        for (contender, request), handler in contenders.items():
            events = [fresh(examples[request]) for _ in range(calls)]
            found[f"{request}_{contender}"].append(time_calls(handler, events))
    return found


if __name__ == "__main__":
    os.environ["IN_MEMORY"] = "1"  # the baselines do not use AWS
    Path(sys.argv[1]).write_text(json.dumps(measure(int(sys.argv[2]), int(sys.argv[3]))), "utf-8")
