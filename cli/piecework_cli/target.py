"""The worker that a command talks to: the one of `make run`, or a deployed stack's.

A deployed worker's tables and settings are read from the environment of its own function, so the operator does not type
them again. The caller's environment wins, locally and for a stack.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from piecework.aws.through_botocore import BotocoreClients
from piecework.jsons import Json
from piecework.worker.chain.exchange import Answer, Endpoint
from piecework.worker.settings import WorkerSettings
from piecework_cli.output import CommandError
from piecework_cli.stacks import output_of, secret_of, variables_of

RUNTIME_PORT: Final = 8787
WORKER_DISTANCE: Final = 1  # from the base port, as `make run` sets them
FACILITATOR_DISTANCE: Final = 4
AWS_DISTANCE: Final = 5
LAST_PORT_BASE: Final = 65_535 - AWS_DISTANCE  # every port above the base must exist
FIRST_REFUSAL: Final = 300
REQUEST_SECONDS: Final = 40.0  # more than the edge's 29 s
URL_OUTPUT: Final = "WorkerUrl"  # of a stack whose door has no domain of its own
SETTINGS_OF: Final = "HireFunction"  # the function that has every setting of the door
LOCAL: Final[Mapping[str, str]] = {  # what `make run` sets where its environment does not
    "PIECEWORK_CONTRACTS_TABLE": "piecework-contracts",
    "PIECEWORK_WORK_TABLE": "piecework-work",
    "PIECEWORK_DUE_TABLE": "piecework-due",
    "PIECEWORK_BUCKET": "piecework-local",
    "WORKER_WALLETS": "0x1563915e194D8CfBA1943570603F7606A3115508",
    "WORKER_AGENT_ID": "agent_work01",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """`--url` and `--stack`, for every command."""
    parser.add_argument("--url", default=os.environ.get("PIECEWORK_WORKER_URL"), help="the worker's base URL")
    parser.add_argument(
        "--stack", default=os.environ.get("PIECEWORK_STACK"), help="a deployed stack; without it this machine's worker"
    )


@dataclass(frozen=True)
class Target:
    """One worker."""

    given_url: str | None
    stack: str | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Target":
        """The target that the command line names."""
        return cls(options.url, options.stack)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The worker's environment: tables, addresses, settings."""
        facilitator = local_url(FACILITATOR_DISTANCE)
        near = {
            "AWS_ENDPOINT_URL": local_url(AWS_DISTANCE),
            "FACILITATOR_URL": facilitator,
            "BASE_RPC_URL": f"{facilitator}/rpc",
        }
        found = variables_of(self.stack, SETTINGS_OF) if self.stack else {**LOCAL, **near}
        return {**found, **{name: value for name, value in os.environ.items() if value}}

    @property
    def url(self) -> str:
        """The worker's base URL."""
        return (self.given_url or (self._stack_url(self.stack) if self.stack else local_url(WORKER_DISTANCE))).rstrip(
            "/"
        )

    def _stack_url(self, stack: str) -> str:
        return self.variables.get("PUBLIC_BASE_URL") or output_of(stack, URL_OUTPUT)

    @property
    def settings(self) -> WorkerSettings:
        """The worker's settings. Raises SettingsError."""
        base = self.variables.get("PUBLIC_BASE_URL") or self.url
        return WorkerSettings.from_env({**self.variables, "PUBLIC_BASE_URL": base})

    @property
    def node_url(self) -> str:
        """The URL of the node that reads the chain, from its secret where it is one; empty without a node."""
        settings = self.settings
        if settings.base_rpc_url or not settings.base_rpc_url_secret_arn:
            return settings.base_rpc_url
        return secret_of(settings.base_rpc_url_secret_arn)

    @cached_property
    def clients(self) -> BotocoreClients:
        """AWS clients with the worker's endpoint and keys."""
        if not self.stack:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
                os.environ.setdefault(name, LOCAL[name])  # botocore reads them there
        return BotocoreClients(self.variables)

    def table(self, name: str) -> str:
        """The name of a table, by its variable."""
        return self.variables[name]

    def ask(self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send one request to the worker.

        Raises:
            CommandError: it does not answer with a JSON object.
        """
        answer = Endpoint(self.url).exchange(method, path, body, headers or {}, REQUEST_SECONDS)
        if not isinstance(answer, Answer):
            raise CommandError(f"{self.url} does not answer; start `make run`, or name another worker with --url")
        if answer.document is None or (answer.status >= FIRST_REFUSAL and "status" not in answer.document):
            raise CommandError(
                f"{self.url} is not a worker door (it answers {answer.status}); `make run` serves one on port 8788"
            )
        return answer


def local_url(distance: int) -> str:
    """The base URL that `make run` serves at this distance from its first port."""
    base = os.environ.get("PIECEWORK_PORT_BASE", str(RUNTIME_PORT))
    if not (base.isascii() and base.isdecimal() and 0 < int(base[:6]) <= LAST_PORT_BASE):
        raise CommandError(f"PIECEWORK_PORT_BASE must be a number from 1 to {LAST_PORT_BASE}, not {base[:40]!r}")
    return f"http://127.0.0.1:{int(base) + distance}"
