"""What each function imports before its first request: what costs a cold start stays with who needs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cold.starts import aws
from bench.contenders import EXECUTE, event, fresh
from bench.worker.hiring import variables

ROOT = Path(__file__).parents[2]
HEAVY = (
    *(
        "asyncio",
        "boto3",
        "botocore",
        "botocore.session",
        "cryptography",
        "eth_account",
        "fastapi",
        "web3",
        "x402",
        "jsonschema",
        "jsonschema_rs",
        "re2",
        "yaml",
        "pydantic",
    ),
    *("requests", "urllib3", "aws_lambda_powertools", "aws_lambda_powertools.utilities.parameters"),
)
FUNCTIONS = {".".join(file.parts[-3:-1]) for file in (ROOT / "functions").glob("*/*/app.py")}
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
STREAMS = {"worker.streams", "kernel.streams", "ops.kernel_streams"}  # web servers, with packages of their own
BUDGETS = {  # of those that need something heavy
    "runtime.execute": {"jsonschema_rs"},
    "runtime.verify": {"jsonschema_rs"},
    "runtime.agent_events": {"pydantic"},
    **{f"worker.{name}": {"jsonschema_rs"} for name in ("hire", "contracts", "task", "webhook", "due")},
    "kernel.http": {"asyncio"},  # yaml and re2 only for a policy
    "kernel.hosted": {"jsonschema_rs"},
}
WORKER = ("HireFunction", "ContractsFunction", "TaskFunction", "WebhookFunction", "WorkerDueFunction")


@pytest.fixture(scope="module")
def executors(tmp_path_factory) -> Path:
    """The executors package as it is deployed, with its manifest, so that no executor is imported to be listed."""
    folder = tmp_path_factory.mktemp("layer")
    package = folder / "executors"
    package.mkdir()
    for module in (ROOT / "layers/executors").glob("*.py"):
        (package / module.name).write_bytes(module.read_bytes())
    run("-m", "piecework.extend.manifest", str(package / "manifest.json"), first=folder)
    return folder


def run(*arguments: str, first: Path, **variables_of_lambda: str) -> str:
    folders = (first, ROOT / "layers/piecework", ROOT / "functions")
    settings = {
        "PIECEWORK_TABLE": "t",
        "PIECEWORK_RUNTIME_TOKENS": "kernel=s3cret",
        "PIECEWORK_OPS_TOKENS": "ann=s3cret",
        "PIECEWORK_BUCKET": "b",
        "PIECEWORK_KERNEL_TABLE": "k",
        "PIECEWORK_DUE_TABLE": "d",
        "PIECEWORK_KERNEL_HOSTED_QUEUE_URL": "http://127.0.0.1:9/queue",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for function in WORKER:
        settings |= variables(function, "https://worker.example.com", "http://127.0.0.1:9")
    powertools = {"POWERTOOLS_SERVICE_NAME": "s", "POWERTOOLS_METRICS_NAMESPACE": "Piecework"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIECEWORK_")}
    env = {**kept, **settings, **powertools, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    env |= variables_of_lambda
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=True)
    return done.stdout


SMALL = ("base64", "dataclasses", "datetime", "hashlib", "hmac", "importlib.util", "inspect", "pathlib", "urllib.parse")


@pytest.mark.parametrize("function", ["runtime.authorizer", "runtime.capabilities"])
def test_a_function_of_a_few_lines_imports_no_module_that_takes_a_millisecond(function, executors):
    code = f"import sys; before = set(sys.modules); import {function}.app; print(*set(sys.modules) - before)"

    assert set(run("-c", code, first=executors).split()) & set(SMALL) == set()


def imported(code: str, executors: Path, **variables_of_lambda: str) -> set[str]:
    listed = f"{code}; import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return set(run("-c", listed, first=executors, **variables_of_lambda).splitlines()[-1].split())


@pytest.mark.parametrize("function", sorted(FUNCTIONS - STREAMS))
def test_a_function_imports_no_heavy_package_that_it_does_not_need(function, executors):
    assert imported(f"import {function}.app", executors) <= BUDGETS.get(function, set())


def test_due_times_are_looked_at_without_the_rules_of_a_policy(executors):
    loaded = set(run("-c", "import kernel.due.app, sys; print(*sys.modules)", first=executors).split())

    assert "piecework.kernel.policy" in loaded
    assert {f"piecework.kernel.policy.{name}" for name in ("rules", "conditions", "schedules")} & loaded == set()


@pytest.mark.parametrize("kind", ["snap-start", "provisioned-concurrency"])
def test_a_start_that_nobody_waits_for_imports_what_a_wrong_body_and_a_bug_need(kind, executors):
    needed = {"pydantic", "aws_lambda_powertools"}

    assert imported("import kernel.http.app", executors, AWS_LAMBDA_INITIALIZATION_TYPE=kind) >= needed


def test_a_right_body_is_read_without_pydantic(executors):
    body = {"execution_id": "e", "session_id": "s", "intent": {"type": "invoke_tool", "tool_id": "t", "remote": True}}

    assert "pydantic" not in imported(f"from kernel.http.agents import IntentBody as B; B.of({body})", executors)


def test_a_first_answer_imports_neither_tables_of_unicode_nor_samples(executors):
    """The names of AWS are ASCII, and an ordinary schema takes the default executor's reference answer."""
    code = (
        "import json, sys; from types import SimpleNamespace; from runtime.execute.app import handler\n"
        "context = SimpleNamespace(get_remaining_time_in_millis=lambda: 29_000)\n"
        f"print(handler(json.loads({json.dumps(fresh(event(EXECUTE)))!r}), context)['statusCode'], *sys.modules)"
    )
    with aws() as endpoint:
        status, *loaded = run("-c", code, first=executors, **endpoint, **KEYS).splitlines()[-1].split()

    assert status == "200" and "executors.echo" in loaded
    assert not {"encodings.idna", "piecework.samples"}.intersection(loaded)
