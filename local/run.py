"""Start everything on this machine: the embedded AWS, then the doors; print what to try next."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Final

from local.aws import CREDENTIALS, NotStarted, embedded_aws, provision, stop, wait_until_answers
from local.die_with_parent import dying_with_parent
from local.gateway.lambdas.variables import (
    KERNEL_ROLES,
    KERNEL_TOKENS,
    OPS_ROLES,
    OPS_TOKENS,
    PARAMETER_PREFIX,
    ROOT,
    SWEEP_SECONDS,
    TOKENS,
    parameters,
)
from local.gateway.sessions import LINK, ONCE, SECRET
from local.preflight import (
    FIRST_PORT,
    POLICY,
    broken_executors,
    check_environments,
    check_parameters,
    check_roles,
    check_tokens,
    policy_path,
    port_base,
    roles_of,
    shared_secrets,
)
from local.template import REGION, Template, read
from piecework.edge.tokens import parse_tokens

PORT_BASE: Final = FIRST_PORT
DOORS: Final[Mapping[str, int]] = {
    "RuntimeApi": 0,
    "WorkerApi": 1,
    "KernelApi": 2,
    "ConsoleApi": 3,
}  # distances from the base port
FACILITATOR_DISTANCE: Final = 4
AWS_DISTANCE: Final = 5
DEFAULT_EXECUTORS: Final = (f"{PARAMETER_PREFIX}DefaultExecutor", f"{PARAMETER_PREFIX}WorkerDefaultExecutor")
DEPLOYED: Final[Mapping[str, str]] = {  # unless the environment sets it
    f"{PARAMETER_PREFIX}DeployWorkerDoor": "true",
    f"{PARAMETER_PREFIX}DeployKernelDoor": "true",
    f"{PARAMETER_PREFIX}DeployConsole": "true",
    f"{PARAMETER_PREFIX}LedgerCompleteFrom": "1970-01-01",  # all data is of this code
    f"{PARAMETER_PREFIX}KernelRotation": "0",  # here a client that leaves is seen at once
    **dict.fromkeys(DEFAULT_EXECUTORS, "echo"),  # a deployment has no default until its operator sets one
    "PIECEWORK_POLICY_DEFAULT": "permissive",
}
# Deadlines of the kernel door act within a second or two here: its sweep does not wait for the minute's.
OF_DOOR: Final[Mapping[str, Mapping[str, str]]] = {"KernelApi": {SWEEP_SECONDS: "1"}}
# The wallet of the development key 0x22…22, which `make demo-hire` and the tests sign with; never for real money.
WORKER: Final[Mapping[str, str]] = {
    "WORKER_WALLETS": "0x1563915e194D8CfBA1943570603F7606A3115508",
    "WORKER_AGENT_ID": "agent_work01",
}
PERSON: Final = "local"  # the name of who signs in by the printed link
PERSONS_ROLES: Final = "approver+client+operator+viewer"
REFERENCE: Final[Mapping[str, str]] = {"REBUNO_BEARER_TOKEN": "rebuno={}", "REBUNO_POLICY": "{}"}
OURS: Final[Mapping[str, str]] = {"REBUNO_BEARER_TOKEN": KERNEL_TOKENS, "REBUNO_POLICY": POLICY}
DEMO: Final = "PIECEWORK_DEMO"  # `off`: the demo's agent and runner are not connected to the kernel door
EXAMPLE: Final = "events/runtime/execute/kernel.json"
NEXT: Final = """
Piecework runs. Ctrl-C stops it and deletes the data of the embedded AWS.

  runtime door   {url}{others}
  AWS            {endpoint}
{default}{boundary}
Try next:

  curl {credential}{url}/execute -H 'content-type: application/json' \\
    -d "$(python3 -c 'import json; print(json.load(open("{example}"))["body"])')"{commands}
"""
NO_BOUNDARY: Final = f"""
Approval is not a boundary at the kernel door: every caller has every role, so an agent may approve its own calls.
{KERNEL_ROLES}=name=role+role,… gives the names of {KERNEL_TOKENS} their roles.
"""
TRY: Final = "\n  {command:<36}# {what}"
TRY_WORKER: Final = "worker door: sign, pay, fetch"
TRY_KERNEL: Final = "kernel door: its executions; then exec watch, approvals ls"


def main() -> int:
    """Run until a signal; returns the exit status."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _interrupt)
    env = {**DEPLOYED, **WORKER, "PIECEWORK_STREAM_KEY": secrets.token_hex(32), **with_own_names(os.environ)}
    try:
        return _serve(port_base(env), _checked(env), env)
    except NotStarted as error:
        print(f"not started: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _checked(env: dict[str, str]) -> Template:
    """The template with the environment's parameters, after a check of every setting; makes the policy's path absolute.

    Raises:
        NotStarted: a setting is wrong.
    """
    check_environments(env)
    check_tokens(env)
    check_roles(env)
    for warning in shared_secrets(env):
        print(warning, file=sys.stderr, flush=True)
    env[POLICY] = policy_path(env)
    for broken in broken_executors(env):
        print(f"executor not served: {broken}", file=sys.stderr, flush=True)
    raw = read(ROOT / "template.yaml")
    check_parameters(raw, parameters(env))
    env |= with_a_link(env)
    return Template(raw, ROOT, parameters(env))


def with_a_link(env: Mapping[str, str]) -> dict[str, str]:
    """The settings behind the printed link, which signs its reader in: a token of its own name, if the door has tokens.

    A name `local` that is configured already keeps the roles that it has.
    """
    link, tokens = {ONCE: secrets.token_urlsafe(24)}, env.get(OPS_TOKENS, "")
    if not tokens:
        return link
    secret, roles = secrets.token_hex(32), env.get(OPS_ROLES, env.get(f"{PARAMETER_PREFIX}OpsTokenRoles", ""))
    is_known = PERSON in (name for name, _ in parse_tokens(tokens))
    own_roles = {OPS_ROLES: f"{roles},{PERSON}={PERSONS_ROLES}"} if roles and not is_known else {}
    return link | {SECRET: secret, OPS_TOKENS: f"{tokens},{PERSON}={secret}"} | own_roles


def _serve(base: int, template: Template, env: dict[str, str]) -> int:
    """Start everything on ports from `base`, and wait until the first door ends; returns its exit status."""
    deployed = template.of_type("AWS::Serverless::Api")
    doors = {api: base + distance for api, distance in DOORS.items() if api in deployed}
    for port in (*doors.values(), base + AWS_DISTANCE):
        _check_free(port)
    with contextlib.ExitStack() as doors_running, contextlib.ExitStack() as running:
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or f"http://127.0.0.1:{base + AWS_DISTANCE}"
        if "WorkerApi" in doors and "FACILITATOR_URL" not in env:
            env |= running.enter_context(_facilitator(base + FACILITATOR_DISTANCE))
        provision(template, running.enter_context(_aws(base + AWS_DISTANCE)))
        running.callback(doors_running.close)  # the doors end before the services that they use
        processes = [doors_running.enter_context(_door(api, port, endpoint, env)) for api, port in doors.items()]
        for port, process in zip(doors.values(), processes, strict=True):
            wait_until_answers(f"http://127.0.0.1:{port}/health", process)
        if "KernelApi" in doors and env.get(DEMO, "on") != "off":
            doors_running.enter_context(_demo(doors["KernelApi"], env))
        print(_what_next(base, doors, endpoint, env), flush=True)
        return processes[0].wait()


def with_own_names(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the reference kernel's variables under our names; ours win if both are set."""
    renamed = {name: value for name, value in env.items() if name not in REFERENCE}
    for name, form in REFERENCE.items():
        if value := env.get(name, ""):
            renamed.setdefault(OURS[name], form.format(value))
    return renamed


def _check_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise NotStarted(f"port {port}: {error.strerror}; PIECEWORK_PORT_BASE moves all ports") from error


def _aws(port: int) -> contextlib.AbstractContextManager[str]:
    given = os.environ.get("AWS_ENDPOINT_URL")
    return contextlib.nullcontext(given) if given else embedded_aws(port)


@contextlib.contextmanager
def _door(api: str, port: int, endpoint: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    known = {name: value for name, value in env.items() if api == "ConsoleApi" or name not in (ONCE, SECRET)}
    variables = {**CREDENTIALS, "AWS_REGION": REGION, **OF_DOOR.get(api, {}), **known, "AWS_ENDPOINT_URL": endpoint}
    with _process(variables, "-m", "local.gateway", "--api", api, "--port", str(port)) as process:
        yield process


@contextlib.contextmanager
def _facilitator(port: int) -> Iterator[dict[str, str]]:
    """The stub of a facilitator and a node of the chain; yields the settings with its addresses."""
    _check_free(port)
    url = f"http://127.0.0.1:{port}"
    with _process(os.environ, "-m", "local.facilitator", "--port", str(port)):
        yield {"FACILITATOR_URL": url, "BASE_RPC_URL": os.environ.get("BASE_RPC_URL", f"{url}/rpc")}


def _demo(port: int, env: Mapping[str, str]) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """The demo's agent and runner."""
    return _process(env, "-m", "local.demo_kernel", "--url", f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def _process(variables: Mapping[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = dying_with_parent("exec", sys.executable, *arguments)
    process = subprocess.Popen(command, env=dict(variables), cwd=ROOT, start_new_session=True)
    try:
        yield process
    finally:
        stop(process)


def _what_next(base: int, doors: Mapping[str, int], endpoint: str, env: Mapping[str, str]) -> str:
    tokens = env.get(TOKENS, "")
    credential = f"-u {tokens.partition(',')[0].partition('=')[0]}:SECRET " if tokens else ""
    moved = f"PIECEWORK_PORT_BASE={base} " if base != PORT_BASE else ""
    others, commands = "", ""
    if "WorkerApi" in doors:
        others += f"\n  worker door    http://127.0.0.1:{doors['WorkerApi']}"
        others += f"\n  facilitator    {env['FACILITATOR_URL']}"
        commands += TRY.format(command=f"{moved}make demo-hire ", what=TRY_WORKER)
    if "KernelApi" in doors:
        others += f"\n  kernel door    http://127.0.0.1:{doors['KernelApi']}/v0/"
        secret = "PIECEWORK_KERNEL_TOKEN=SECRET " if env.get(KERNEL_TOKENS) else ""
        commands += TRY.format(command=f"{moved}{secret}bin/piecework exec ls ", what=TRY_KERNEL)
    if "ConsoleApi" in doors:
        console = f"http://127.0.0.1:{doors['ConsoleApi']}"
        others += f"\n  operator's     {console}/ops/"
        if ONCE in env:
            others += f"\n  console        {LINK.format(url=console, token=env[ONCE])} (works once)"
    url = f"http://127.0.0.1:{base}"
    return NEXT.format(
        url=url,
        endpoint=endpoint,
        credential=credential,
        example=EXAMPLE,
        others=others,
        commands=commands,
        default=_default_executors(env),
        boundary=NO_BOUNDARY if "KernelApi" in doors and not roles_of(env) else "",
    )


def _default_executors(env: Mapping[str, str]) -> str:
    """A sentence on the default executors: set here, and not on AWS until the operator sets them."""
    chosen = {env[name] for name in DEFAULT_EXECUTORS if env[name]}
    if not chosen:
        return ""
    names = " and ".join(sorted(chosen))
    return (
        f"\nTasks that do not name an executor go to {names} here. A deployment refuses them until it has a default.\n"
    )


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
