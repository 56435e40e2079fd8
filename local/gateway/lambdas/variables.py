"""The environment variables of a local function: those of the template, and those that Lambda itself adds."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from local.gateway.routes import Function
from local.template import ACCOUNT, REGION

ROOT: Final[Path] = Path(__file__).resolve().parents[3]
PACKAGE: Final = ROOT / "layers" / "piecework"
EXECUTORS: Final = ROOT / "layers"  # the folder with the layer's package
PARAMETER_PREFIX: Final = "PIECEWORK_PARAM_"
TOKENS: Final = "PIECEWORK_RUNTIME_TOKENS"
KERNEL_TOKENS: Final = "PIECEWORK_KERNEL_TOKENS"
KERNEL_ROLES: Final = "PIECEWORK_KERNEL_TOKEN_ROLES"
KERNEL_TOKENS_SECRET: Final = f"{KERNEL_TOKENS}_SECRET_ARN"
OPS_TOKENS: Final = "PIECEWORK_OPS_TOKENS"
OPS_ROLES: Final = "PIECEWORK_OPS_TOKEN_ROLES"
OWN_POOLS_CLIENT: Final = "PIECEWORK_OPS_CLIENT_ID_PARAMETER"
CONNECT: Final = "PIECEWORK_OPS_CONNECT_ORIGIN"
POOLS_HOST: Final = ".amazoncognito.com"
ISSUER: Final = "PIECEWORK_OPS_ISSUER"
OWN_TOKENS: Final = (KERNEL_TOKENS, OPS_TOKENS)  # of doors whose functions check them, without an authorizer
WEBHOOKS: Final = "PIECEWORK_KERNEL_WEBHOOKS"
SWEEP_SECONDS: Final = "PIECEWORK_SWEEP_SECONDS"
PUBLIC_URL: Final = "PIECEWORK_RUNTIME_PUBLIC_URL"
PUBLIC_BASE_URL: Final = "PUBLIC_BASE_URL"
FILES_KEY: Final = "PIECEWORK_DELIVERABLES_KEY_ARN"
EMULATED_KEY: Final = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/local"  # the emulator requires a key's name
RPC_URL: Final = "BASE_RPC_URL"
CHAIN_SEEN: Final = "BASE_CHAIN_SEEN"
RUNS_EXECUTORS: Final = "PIECEWORK_EXECUTOR_SECRET_ARN"  # functions that have it run the user's code
# Local variables, each with the template's variable that a function must have to get it; most replace a secret or file.
LOCAL: Final[Mapping[str, str]] = {
    TOKENS: f"{TOKENS}_SECRET_ARN",
    **{name: f"{name}_SECRET_ARN" for name in OWN_TOKENS},
    "PIECEWORK_STREAM_KEY": "PIECEWORK_STREAM_KEY_ARN",
    WEBHOOKS: f"{WEBHOOKS}_SECRET_ARN",
    "BASE_RPC_URL": "BASE_RPC_URL_SECRET_ARN",
    "PIECEWORK_POLICY": "PIECEWORK_POLICY_S3",
    "PIECEWORK_POLICY_DEFAULT": "PIECEWORK_POLICY_S3",
    **dict.fromkeys(  # clocks that tests shorten; they are not set on AWS
        (
            "PIECEWORK_KERNEL_HEARTBEAT",
            "PIECEWORK_KERNEL_LEASE",
            "PIECEWORK_KERNEL_LOST_GRACE",
            "PIECEWORK_KERNEL_ROTATION_GRACE",
            "REBUNO_RETRY_BASE_DELAY",
            "REBUNO_RETRY_MAX_DELAY",
        ),
        "PIECEWORK_KERNEL_TABLE",
    ),
}
STANDS_IN: Final[Mapping[str, tuple[str, str]]] = {  # a local variable, and the parameter that it is in place of
    WEBHOOKS: ("KernelWebhooksSecretArn", f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:local"),
}
EXECUTORS_PATH: Final = "PIECEWORK_EXECUTORS_PATH"  # in place of the layer of that name
EXECUTORS_LAYER: Final = "ExecutorsLayer"
OURS: Final = ("AWS_", "PIECEWORK_", "POWERTOOLS_", "REBUNO_")  # prefixes of variables that do not belong to executors
MACHINE: Final = frozenset({"HOME", "LD_LIBRARY_PATH", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR"})
LAMBDA_SETS: Final = "AWS_LAMBDA_"  # not passed on from a caller that itself runs on Lambda
NOT_OURS: Final = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "VIRTUAL_ENV"})


def parameters(caller: Mapping[str, str]) -> dict[str, str]:
    """Template parameters that the caller sets as PIECEWORK_PARAM_<Name>, and those for which a variable stands in."""
    prefix = PARAMETER_PREFIX
    stood_in = dict(parameter for name, parameter in STANDS_IN.items() if caller.get(name))
    return stood_in | {name.removeprefix(prefix): value for name, value in caller.items() if name.startswith(prefix)}


def of_function(function: Function, caller: Mapping[str, str], *, public_url: str) -> dict[str, str]:
    """All variables of one function's processes.

    As on AWS, a setting reaches only the functions to which the template gives it. A variable of the caller replaces
    the template's value, as a parameter would. Variables that are not the product's stand for the executors' secret,
    and reach the functions that may read it.
    """
    given = function.environment
    passed = {name: value for name, value in caller.items() if _reaches(name, function)}
    urls = {name: public_url for name in (PUBLIC_URL, PUBLIC_BASE_URL) if name in given}
    seen = {name: "true" for name in given if name == CHAIN_SEEN and caller.get(RPC_URL)}  # a condition in the template
    region = {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    emulated = _emulated(given) if "AWS_ENDPOINT_URL" in caller else {}
    return {**given, **emulated, **urls, **seen, **region, **passed, **_lambda(function)}


def _emulated(given: Mapping[str, str]) -> dict[str, str]:
    key = {FILES_KEY: EMULATED_KEY} if FILES_KEY in given and not given[FILES_KEY] else {}
    pool = {ISSUER: ""} if given.get(OWN_POOLS_CLIENT) else {}  # the emulator has no user pool to sign in at
    pool |= {CONNECT: ""} if POOLS_HOST in given.get(CONNECT, "") else {}
    return {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", **key, **pool}


def _reaches(name: str, function: Function) -> bool:
    given = function.environment
    if name in given or name in MACHINE:
        return True
    if name.startswith("AWS_"):
        return not name.startswith(LAMBDA_SETS) and name not in function.elsewhere
    if name == EXECUTORS_PATH:
        return EXECUTORS_LAYER in function.layers
    if name in LOCAL:
        return LOCAL[name] in given
    own = not name.startswith(OURS) and name not in function.elsewhere and name not in NOT_OURS
    return own and RUNS_EXECUTORS in given


def _lambda(function: Function) -> dict[str, str]:
    folders = (function.folder, PACKAGE, *([EXECUTORS] if EXECUTORS_LAYER in function.layers else ()))
    return {
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "LAMBDA_TASK_ROOT": str(function.folder),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "TZ": ":UTC",
    }
