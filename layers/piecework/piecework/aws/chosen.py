"""Whose clients an environment gets: our own, or botocore's.

`PIECEWORK_AWS=botocore` asks for botocore's, and an environment with a proxy needs them: ours do not know proxies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from piecework.aws.clients import Clients
from piecework.errors import SettingsError

SWITCH: Final = "PIECEWORK_AWS"
PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


def clients_of(env: Mapping[str, str]) -> Clients:
    """The clients of an environment: our own, or botocore's where it asks for them or needs a proxy.

    Raises:
        SettingsError: it asks for something else.
    """
    if env.get(SWITCH, "own") not in ("", "own", "botocore"):
        raise SettingsError(f"set {SWITCH} to own or botocore (parameter AwsClients)")
    if env.get(SWITCH) == "botocore" or any(map(env.get, PROXIES)):
        from piecework.aws.through_botocore import BotocoreClients

        return BotocoreClients(env)
    clients = Clients(env)
    clients.prepare()
    return clients
