"""Start everything on this machine: the embedded AWS, then the doors, and say what to try next."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Final

from local.aws import CREDENTIALS, NotStarted, embedded_aws, provision, stop, wait_until_answers
from local.gateway.variables import ROOT, TOKENS, parameters
from local.template import REGION, Template
from local.tether import tethered

PORT_BASE: Final = 8787
DOORS: Final[Mapping[str, int]] = {"RuntimeApi": 0}  # logical name of the API, distance from the base port
AWS_DISTANCE: Final = 5
EXAMPLE: Final = "events/execute/kernel.json"
NEXT: Final = """
Piecework runs. Ctrl-C stops it; the data of the embedded AWS goes with it.

  runtime door   {url}
  AWS            {endpoint}

Try next:

  curl {credential}{url}/health
  curl {credential}{url}/capabilities
  curl {credential}{url}/execute -H 'content-type: application/json' \\
    -d "$(python3 -c 'import json; print(json.load(open("{example}"))["body"])')"
  make conformance URL={url}{token}
"""


def main() -> int:
    """Run until a signal; returns the exit status."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _interrupt)
    base = int(os.environ.get("PIECEWORK_PORT_BASE", PORT_BASE))
    try:
        for port in (*(base + distance for distance in DOORS.values()), base + AWS_DISTANCE):
            _check_free(port)
        with contextlib.ExitStack() as running:
            endpoint = running.enter_context(_aws(base + AWS_DISTANCE))
            template = Template.load(ROOT / "template.yaml", parameters(os.environ))
            provision(template, endpoint)
            deployed = template.of_type("AWS::Serverless::Api")
            doors = {api: base + distance for api, distance in DOORS.items() if api in deployed}
            processes = [running.enter_context(_door(api, port, endpoint)) for api, port in doors.items()]
            print(_what_next(f"http://127.0.0.1:{base}", endpoint), flush=True)
            return processes[0].wait()
    except NotStarted as error:
        print(f"not started: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _check_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise NotStarted(f"port {port}: {error.strerror}; PIECEWORK_PORT_BASE moves all ports") from error


def _aws(port: int) -> contextlib.AbstractContextManager[str]:
    given = os.environ.get("AWS_ENDPOINT_URL")
    return contextlib.nullcontext(given) if given else embedded_aws(port)


@contextlib.contextmanager
def _door(api: str, port: int, endpoint: str) -> Iterator[subprocess.Popen[bytes]]:
    variables = {**CREDENTIALS, "AWS_REGION": REGION, **os.environ, "AWS_ENDPOINT_URL": endpoint}
    command = tethered("exec", sys.executable, "-m", "local.gateway", "--api", api, "--port", str(port))
    process = subprocess.Popen(command, env=variables, cwd=ROOT, start_new_session=True)
    try:
        wait_until_answers(f"http://127.0.0.1:{port}/health", process)
        yield process
    finally:
        stop(process)


def _what_next(url: str, endpoint: str) -> str:
    tokens = os.environ.get(TOKENS, "")
    name = tokens.partition(",")[0].partition("=")[0]
    credential, token = (f"-u {name}:SECRET ", f" TOKEN={name}=SECRET") if tokens else ("", "")
    return NEXT.format(url=url, endpoint=endpoint, credential=credential, token=token, example=EXAMPLE)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
