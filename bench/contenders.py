"""The measured handlers, their common environment, and their requests."""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.scratch import Scratch
from bench.worker.hiring import EXECUTOR, variables
from local.gateway.lambdas.variables import ROOT
from local.template import REGION

EXAMPLE_IDS: Final = (
    "task-2f0c5a1e-0a64-4b1e-9a0b-6f4f1c0f7a33",
    "exec-p-6b0d7e0e-9a51-4c1c-8f0e-3a6f3a0e9d11",
)


@dataclass(frozen=True, slots=True)
class Contender:
    """A handler, the scratch folder with its code, and its request."""

    name: str
    handler: str
    code: str
    request: str = "execute"
    status: int = 200


NAMES: Final = {"capabilities": "capabilities", "hire": "unpaid"}  # the event's name; the others use a kernel's
NOBODY: Final = "http://127.0.0.1:9"  # an endpoint that must not be called
COLD: Final = (
    Contender("bare", "bare.handler", "probes"),
    Contender("boto3", "dynamodb_client.handler", "probes"),
    Contender("execute", "runtime.execute.app.handler", "functions"),
    Contender("verify", "runtime.verify.app.handler", "functions", "verify"),
    Contender("capabilities", "runtime.capabilities.app.handler", "functions", "capabilities"),
    Contender("hire", "worker.hire.app.handler", "functions", "hire", 404),  # its AWS does not have contracts
    Contender("idiomatic", "idiomatic_powertools.handler", "baselines"),
    Contender("fastapi", "fastapi_mangum.handler", "baselines"),
)


def environment(scratch: Scratch, code: str, endpoint: str) -> dict[str, str]:
    """The variables of a contender's process: the same for all, except the path of the code and our template's own."""
    own = {"PIECEWORK_TABLE": "piecework-results", "PIECEWORK_BUCKET": "piecework-local"}
    aws = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": endpoint}
    function = {"AWS_LAMBDA_FUNCTION_NAME": "bench", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "TZ": ":UTC"}
    if code == "functions":
        own["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as the template sets it
        own["PIECEWORK_DEFAULT_EXECUTOR"] = EXECUTOR
        own |= variables("HireFunction", "https://worker.example.com", NOBODY)
    return {
        **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
        **own,
        **aws,
        **function,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "POWERTOOLS_SERVICE_NAME": "bench",
        "POWERTOOLS_METRICS_NAMESPACE": "Piecework",
        "PIECEWORK_RUNTIME_PUBLIC_URL": "https://runtime.example.com",
        "PIECEWORK_FETCH_EVIDENCE": "off",
        "PYTHONPATH": scratch.path_of(code),
        "BUCKET": "piecework-local",
    }


def event(request: str) -> dict[str, Any]:
    """The API Gateway event of a kernel's request."""
    name = NAMES.get(request, "kernel")
    door = "worker" if request == "hire" else "runtime"
    found: dict[str, Any] = json.loads((ROOT / "events" / door / request / f"{name}.json").read_text("utf-8"))
    return found


def fresh(example: Mapping[str, Any]) -> dict[str, Any]:
    """The same event for a new piece."""
    body = str(example["body"])
    for known in EXAMPLE_IDS:
        body = body.replace(known, f"{known.partition('-')[0]}-{uuid.uuid4()}")
    return {**example, "body": body}
