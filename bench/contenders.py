"""The measured handlers, their common environment, and their requests."""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from bench.scratch import Scratch
from bench.worker.hiring import deployed, worker
from local.gateway.lambdas.variables import ROOT
from local.gateway.routes import api_of
from local.template import REGION

EXAMPLE_IDS: Final = (
    "task-2f0c5a1e-0a64-4b1e-9a0b-6f4f1c0f7a33",
    "exec-p-6b0d7e0e-9a51-4c1c-8f0e-3a6f3a0e9d11",
)
EXECUTE: Final = "runtime/execute/kernel"  # events below events/
VERIFY: Final = "runtime/verify/kernel"
CREATE: Final = "kernel/http/create"
CALLER: Final = "runtime/authorizer/basic"
TOKENS: Final = "kernel=s3cret/+"  # of the caller in these events
AUTHORIZATION: Final = "Bearer s3cret/+"
ARN: Final = "arn:aws:secretsmanager:us-east-1:000000000000:secret:tokens"
NOBODY: Final = "http://127.0.0.1:9"  # an endpoint that must not be called
MEASURED: Final = {
    "RuntimeApi": ("ExecuteFunction", "VerifyFunction", "CapabilitiesFunction", "AuthorizerFunction"),
    "KernelApi": ("KernelFunction",),
    "WorkerApi": ("HireFunction",),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A handler, the scratch folder with its code, its request, and a member of the answer that shows its success."""

    name: str
    handler: str
    code: str
    event: str = EXECUTE
    answers: tuple[str, object] = ("statusCode", 200)


OWN: Final = (
    Contender("execute", "runtime.execute.app.handler", "functions"),
    Contender("verify", "runtime.verify.app.handler", "functions", VERIFY),
    Contender("capabilities", "runtime.capabilities.app.handler", "functions", "runtime/capabilities/capabilities"),
    Contender("authorizer", "runtime.authorizer.app.handler", "functions", CALLER, ("principalId", "kernel")),
    # its AWS does not have contracts
    Contender("hire", "worker.hire.app.handler", "functions", "worker/hire/unpaid", ("statusCode", 404)),
    Contender("kernel", "kernel.http.app.handler", "functions", CREATE, ("statusCode", 201)),
)
OTHERS: Final = (
    Contender("bare", "bare.handler", "probes"),
    Contender("boto3", "dynamodb_client.handler", "probes"),
    Contender("idiomatic", "idiomatic_powertools.handler", "baselines"),
    Contender("fastapi", "fastapi_mangum.handler", "baselines"),
    Contender("authorizer_boto3", "authorizer_boto3.handler", "baselines", CALLER, ("principalId", "kernel")),
    Contender("kernel_fastapi", "kernel_fastapi.handler", "baselines", CREATE, ("statusCode", 201)),
)


def environment(scratch: Scratch, code: str) -> dict[str, str]:
    """The variables of a contender's process: the same for all, except the path of the code."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, **settings(scratch.root), "PYTHONPATH": scratch.path_of(code)}


@cache
def settings(root: Path) -> Mapping[str, str]:
    """What a tree's template sets on the measured functions, with secrets of tokens, and what Lambda sets."""
    template = deployed(root)
    declared: dict[str, str] = {}
    for api, functions in MEASURED.items():
        for function in functions:
            given = api_of(template, api).functions[function].environment
            declared |= {name: value for name, value in given.items() if value}
    secrets = ("PIECEWORK_RUNTIME_TOKENS_SECRET_ARN", "PIECEWORK_KERNEL_TOKENS_SECRET_ARN", "TOKENS_SECRET_ARN")
    return {
        **declared,
        **worker(NOBODY),
        **dict.fromkeys(secrets, ARN),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LAMBDA_FUNCTION_NAME": "bench",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "TZ": ":UTC",
        "POWERTOOLS_SERVICE_NAME": "bench",
        "POWERTOOLS_METRICS_NAMESPACE": "Piecework",
        "PIECEWORK_RUNTIME_PUBLIC_URL": "https://runtime.example.com",
        "PUBLIC_BASE_URL": "https://worker.example.com",
        "PIECEWORK_FETCH_EVIDENCE": "off",
        "BUCKET": "piecework-local",  # a baseline's
    }


@cache
def event(path: str) -> Mapping[str, Any]:
    """An API Gateway event of events/, with a credential for the door that asks for one itself."""
    found: dict[str, Any] = json.loads((ROOT / "events" / f"{path}.json").read_text("utf-8"))
    if path.startswith("kernel/"):
        found["headers"]["Authorization"] = AUTHORIZATION
        found["multiValueHeaders"]["Authorization"] = [AUTHORIZATION]
    return found


def fresh(example: Mapping[str, Any]) -> dict[str, Any]:
    """The same event for a new piece."""
    if not isinstance(example.get("body"), str):
        return dict(example)
    body = example["body"]
    for known in EXAMPLE_IDS:
        body = body.replace(known, f"{known.partition('-')[0]}-{uuid.uuid4()}")
    return {**example, "body": body}
