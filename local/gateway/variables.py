"""The environment variables a function sees here: the template's, then the caller's own, then what Lambda adds."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from local.gateway.routes import Function
from local.template import REGION

ROOT: Final[Path] = Path(__file__).resolve().parents[2]
LAYERS: Final = (ROOT / "layers" / "piecework", ROOT / "layers")
PARAMETER_PREFIX: Final = "PIECEWORK_PARAM_"
TOKENS: Final = "PIECEWORK_RUNTIME_TOKENS"
KERNEL_TOKENS: Final = "PIECEWORK_KERNEL_TOKENS"
KERNEL_TOKENS_SECRET: Final = f"{KERNEL_TOKENS}_SECRET_ARN"
SWEEP_SECONDS: Final = "PIECEWORK_SWEEP_SECONDS"
PUBLIC_URL: Final = "PIECEWORK_RUNTIME_PUBLIC_URL"
PUBLIC_BASE_URL: Final = "PUBLIC_BASE_URL"
NOT_OURS: Final = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "VIRTUAL_ENV")


def parameters(caller: Mapping[str, str]) -> dict[str, str]:
    """Template parameters the caller sets as PIECEWORK_PARAM_<Name>."""
    prefix = PARAMETER_PREFIX
    return {name.removeprefix(prefix): value for name, value in caller.items() if name.startswith(prefix)}


def of_function(function: Function, caller: Mapping[str, str], *, sees_tokens: bool, public_url: str) -> dict[str, str]:
    """All variables of one function's processes.

    The caller's whole environment comes along, so that an executor's own plain variables work; the tokens do not,
    except to whoever checks them.
    """
    hidden = {name for name in caller if name.startswith(PARAMETER_PREFIX)} | set(NOT_OURS)
    if not sees_tokens:
        hidden.add(TOKENS)
    if KERNEL_TOKENS_SECRET not in function.environment:  # the kernel door's own functions check them
        hidden.add(KERNEL_TOKENS)
    passed = {name: value for name, value in caller.items() if name not in hidden}
    own_url = {PUBLIC_BASE_URL: public_url} if PUBLIC_BASE_URL in function.environment else {}
    local = {PUBLIC_URL: public_url, **own_url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"} if "AWS_ENDPOINT_URL" in caller else {}
    return {**keys, **function.environment, **local, **passed, **_lambda(function)}


def _lambda(function: Function) -> dict[str, str]:
    return {
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "LAMBDA_TASK_ROOT": str(function.folder),
        "PYTHONPATH": os.pathsep.join(map(str, (function.folder, *LAYERS))),
        "TZ": ":UTC",
    }
