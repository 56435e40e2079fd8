"""Send every event of events/ to its handler, in a process as on Lambda, and compare the answers.

A fixture is an event, `events/<door>/<function>/<name>.json`, with `<name>.expected.json` beside it:

    {"environment": {"PIECEWORK_POLICY_HASH_MODE": "lenient"}, "statusCode": 200, "headers": {…}, "body": {…}}

`headers` names the required headers; `body` is the decoded JSON body, or text. A function that does not answer HTTP (an
authorizer, or one behind a queue) has `result` instead, or `error` with the text of its exception. Members that change
from run to run are written as in local/matching.py. Fixtures of one folder run in the order of their names, so that a
later one may use what an earlier one has made.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from local import aws
from local.gateway.lambdas.environments import FunctionFailed
from local.gateway.lambdas.pool import Pool
from local.gateway.lambdas.runtime_api import Invocation
from local.gateway.lambdas.variables import ROOT, of_function, parameters
from local.gateway.routes import Function, api_of
from local.gateway.web_app import WRAPPER
from local.matching import differences
from local.replay_web import WebPool
from local.replay_worker import worker
from local.run import DEPLOYED
from local.template import REGION, Template

LOG: Final = ROOT / "build" / "replay.log"
EXPECTED: Final = ".expected.json"
TRACE_ID: Final = "Root=1-65f00000-0123456789abcdef01234567"
PUBLIC_URL: Final = "http://127.0.0.1:8787"
SEPARATOR: Final = re.compile("[./]")  # between the folders in a handler, or in the path of a script


@dataclass(frozen=True, slots=True)
class Fixture:
    """One event and its expected answer."""

    folder: str
    name: str
    event: bytes
    expected: Mapping[str, Any]

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """The settings of this fixture; fixtures with the same settings share a process."""
        return tuple(sorted(self.expected.get("environment", {}).items()))


def fixtures(events: Path) -> Iterator[Fixture]:
    """All events that have an expectation, in a stable order."""
    for expected in sorted(events.glob(f"*/*/*{EXPECTED}")):
        name = expected.name.removesuffix(EXPECTED)
        event = expected.with_name(f"{name}.json").read_bytes()
        yield Fixture(
            expected.parent.relative_to(events).as_posix(), name, event, json.loads(expected.read_text("utf-8"))
        )


def main() -> int:
    """Replay all; returns 1 if an answer differs or fixtures were not found."""
    parser = argparse.ArgumentParser(prog="local.replay", description="Replay events/ and compare the answers.")
    parser.add_argument("--events", type=Path, default=ROOT / "events")
    events = parser.parse_args().events
    wanted = list(fixtures(events))
    template = Template.load(ROOT / "template.yaml", parameters({**DEPLOYED, **os.environ}))
    LOG.parent.mkdir(exist_ok=True)
    with _endpoint() as endpoint, LOG.open("wb") as log:
        aws.provision(template, endpoint)
        own = {name: value for name, value in os.environ.items() if not name.startswith("PIECEWORK_")}
        caller = {**aws.CREDENTIALS, "AWS_REGION": REGION, **own, "AWS_ENDPOINT_URL": endpoint}
        with worker(template, events, endpoint) as variables:
            failed = asyncio.run(_replay_all(wanted, _functions(template), {**caller, **variables}, log))
    print(
        f"{len(wanted) - failed} of {len(wanted)} fixtures answered as expected; {LOG.relative_to(ROOT)} has the logs"
    )
    return 1 if failed or not wanted else 0


@contextlib.contextmanager
def _endpoint() -> Iterator[str]:
    if given := os.environ.get("AWS_ENDPOINT_URL"):
        yield given
        return
    with aws.embedded_aws() as endpoint:
        yield endpoint


def _functions(template: Template) -> dict[str, Function]:
    apis = (api_of(template, name) for name in template.of_type("AWS::Serverless::Api"))
    return {"/".join(SEPARATOR.split(made.handler)[:2]): made for api in apis for made in api.functions.values()}


async def _replay_all(
    wanted: list[Fixture], functions: Mapping[str, Function], caller: Mapping[str, str], log: IO[bytes]
) -> int:
    failed = 0
    for folder, environment in sorted({(fixture.folder, fixture.environment) for fixture in wanted}):
        group = [fixture for fixture in wanted if (fixture.folder, fixture.environment) == (folder, environment)]
        function, given = functions[folder], {**caller, **dict(environment)}
        variables = of_function(function, given, public_url=PUBLIC_URL)
        pool = (WebPool if WRAPPER in function.environment else Pool)(function, variables, log)
        try:
            await pool.open()
            for fixture in group:
                failed += _report(fixture, [line async for line in _replay(fixture, pool)])
        finally:
            await pool.close()
    return failed


async def _replay(fixture: Fixture, pool: Pool | WebPool) -> Any:
    expected = {key: value for key, value in fixture.expected.items() if key != "environment"}
    try:
        answer = json.loads(await pool.invoke(Invocation(str(uuid.uuid4()), TRACE_ID, fixture.event)))
    except FunctionFailed as error:
        answer = {"error": error.message}
    actual = _http(answer, expected.get("headers", {})) if "statusCode" in answer else answer
    if "result" in expected:
        expected = expected["result"]
    for line in differences(expected, actual):
        yield line


def _http(answer: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in (answer.get("headers") or {}).items()}
    seen = {name: headers[name.lower()] for name in wanted if name.lower() in headers}
    return {"statusCode": answer["statusCode"], "headers": seen, "body": _body(answer)}


def _body(answer: Mapping[str, Any]) -> Any:
    text = answer.get("body") or ""
    if answer.get("isBase64Encoded"):
        text = base64.b64decode(text).decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _report(fixture: Fixture, lines: list[str]) -> int:
    print(f"{'DIFFERS' if lines else 'ok':8}{fixture.folder}/{fixture.name}", flush=True)
    for line in lines:
        print(f"          {line}", flush=True)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
