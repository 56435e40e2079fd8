"""What a run ran on: figures say nothing without it."""

import os
import platform
import ssl
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

LIBRARIES: Final = (
    *("awslambdaric", "aws-lambda-powertools", "boto3", "botocore", "cryptography"),
    *("fastapi", "jsonschema", "jsonschema-rs", "mangum", "pydantic"),
)


def machine() -> dict[str, Any]:
    """The machine, its system, and the versions of what is measured; the load is that of now."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "os": f"{platform.freedesktop_os_release().get('PRETTY_NAME', '')}, {platform.system()} {platform.release()}",
        "python": f"{platform.python_version()} on {platform.machine()}, {ssl.OPENSSL_VERSION}",
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "load_before": load(),
    }


def load() -> float:
    """The average number of processes that wanted a core in the last minute."""
    return round(os.getloadavg()[0], 2)


def head(of: Mapping[str, Any]) -> str:
    """The lines over a run's figures."""
    libraries = ", ".join(f"{name} {version}" for name, version in of["libraries"].items())
    return "\n".join(
        (
            f"{of['cpu']}, {of['cores']} cores, {of['memory_gb']} GB; {of['os']}",
            f"Python {of['python']}; {libraries}",
            f"load before {of['load_before']}, after {of.get('load_after', '?')}",
        )
    )


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
