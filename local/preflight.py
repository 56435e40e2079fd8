"""Finds problems in the settings and executors of `make run` before it starts, with a sentence for each."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from local.aws import NotStarted
from local.gateway.lambdas.variables import (
    EXECUTORS,
    EXECUTORS_PATH,
    KERNEL_ROLES,
    KERNEL_TOKENS,
    OPS_ROLES,
    OPS_TOKENS,
    OWN_TOKENS,
    PACKAGE,
    PARAMETER_PREFIX,
    ROOT,
    TOKENS,
)
from local.parameters import Refused, check_values
from piecework.edge.roles import parse_roles
from piecework.edge.tokens import SHARED, parse_tokens, sharing
from piecework.errors import PieceworkError
from piecework.kernel.policy.sources import load_path

PORT_BASE: Final = "PIECEWORK_PORT_BASE"
FIRST_PORT: Final = 8787
LAST_DISTANCE: Final = 5  # of the embedded AWS from the base port
LAST_PORT: Final = 65_535
ENVIRONMENTS: Final = "PIECEWORK_LOCAL_ENVIRONMENTS"
MOST_ENVIRONMENTS: Final = 1_000  # processes of one function
POLICY: Final = "PIECEWORK_POLICY"


def port_base(env: Mapping[str, str]) -> int:
    """The first of the local ports.

    Raises:
        NotStarted: the setting is not a port number, or too few ports are above it.
    """
    given = env.get(PORT_BASE) or str(FIRST_PORT)
    last = LAST_PORT - LAST_DISTANCE
    if given.isascii() and given.isdecimal() and 0 < int(given[:6]) <= last:
        return int(given)
    raise NotStarted(f"{PORT_BASE} must be a number from 1 to {last}, not {given[:40]!r}")


def check_parameters(raw: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Check that the template has the parameters that the environment sets, and accepts their values.

    Raises:
        NotStarted: it does not.
    """
    try:
        check_values(raw, given)
    except Refused as error:
        raise NotStarted(f"{PARAMETER_PREFIX}…: {error}") from error


def check_environments(env: Mapping[str, str]) -> None:
    """Check the number of environments that each function may have.

    Raises:
        NotStarted: the setting is not such a number.
    """
    given = env.get(ENVIRONMENTS) or "1"
    if not (given.isascii() and given.isdecimal() and 0 < int(given[:6]) <= MOST_ENVIRONMENTS):
        raise NotStarted(f"{ENVIRONMENTS} must be a number from 1 to {MOST_ENVIRONMENTS}, not {given[:40]!r}")


def check_tokens(env: Mapping[str, str]) -> None:
    """Check that the doors' tokens can be read, so that a slip does not open or close a door.

    Raises:
        NotStarted: they cannot be read; their text is not shown.
    """
    for name in (TOKENS, *OWN_TOKENS):
        try:
            parse_tokens(env.get(name, ""))
        except PieceworkError as error:
            raise NotStarted(f"{name}: {error.message}") from error


def shared_secrets(env: Mapping[str, str]) -> list[str]:
    """A sentence for each secret that several names of a door have: by Bearer alone it is the first of them."""
    doors = ((name, parse_tokens(env.get(name, ""))) for name in (TOKENS, *OWN_TOKENS))
    return [f"{name}: {names} share a secret. {SHARED}" for name, tokens in doors for names in sharing(tokens)]


def check_roles(env: Mapping[str, str]) -> None:
    """Check that the roles of the kernel's and the operator's door can be read, each of a name that has a token.

    Raises:
        NotStarted: they cannot be read, the door does not have tokens, or a name does not have one.
    """
    _check_roles(KERNEL_ROLES, roles_of(env), KERNEL_TOKENS, env)
    _check_roles(OPS_ROLES, env.get(OPS_ROLES, env.get(f"{PARAMETER_PREFIX}OpsTokenRoles", "")), OPS_TOKENS, env)


def roles_of(env: Mapping[str, str]) -> str:
    """The text of the kernel door's roles, as its functions get it."""
    return env.get(KERNEL_ROLES, env.get(f"{PARAMETER_PREFIX}KernelTokenRoles", ""))


def policy_path(env: Mapping[str, str]) -> str:
    """The absolute path of the policy that the environment names; empty if it does not name one.

    Functions run in their own folders, so a relative path is looked up in the caller's folder, then in the project's.

    Raises:
        NotStarted: the policy cannot be loaded.
    """
    given = env.get(POLICY, "")
    if not given:
        return ""
    path = next((place for place in (Path(given), ROOT / given) if place.exists()), Path(given)).resolve()
    try:
        load_path(path)
    except PieceworkError as error:
        raise NotStarted(f"{POLICY}={given}: {error.message}") from error
    return str(path)


def broken_executors(env: Mapping[str, str]) -> list[str]:
    """File, line and reason of each executor module that cannot be imported; the other executors are served."""
    own = {name: value for name, value in env.items() if not name.startswith(("AWS_", "PIECEWORK_", "PYTHON"))}
    path = {"PYTHONPATH": os.pathsep.join((str(PACKAGE), str(EXECUTORS)))}
    checked = subprocess.run(
        [sys.executable, "-m", "piecework.extend.manifest", "--check", env.get(EXECUTORS_PATH, "")],
        env={**own, **path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return checked.stderr.splitlines() if checked.returncode else []


def _check_roles(name: str, text: str, of: str, env: Mapping[str, str]) -> None:
    try:
        table = parse_roles(text)
    except PieceworkError as error:
        raise NotStarted(f"{name}: {error.message}") from error
    tokens = parse_tokens(env.get(of, ""))
    if table.is_limited and not tokens:
        raise NotStarted(f"{name}: without {of} the door is open, and roles do not hold there")
    if strangers := table.without_token(caller for caller, _ in tokens):
        raise NotStarted(f"{name}: {of} has no token of the name {', '.join(strangers)}")
