"""Where a webhook may be sent, as far as its URL alone tells (worker specification 4.4).

The name's addresses are checked at every delivery; here is what must hold before a contract is taken, and then.
"""

import re
from typing import Final

from piecework.net.addresses import AddressRefused, Target, parse_target

PORTS: Final = frozenset({443, 8443})
PRIVATE_SUFFIXES: Final = (".local", ".internal", ".localhost")
LONGEST_HOST: Final = 253
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


def webhook_target(url: str) -> Target:
    """Read a webhook URL: https, a public-looking name in its ASCII form, port 443 or 8443, no credentials.

    Raises:
        AddressRefused: it is another kind of URL.
    """
    target = parse_target(url)
    if target.scheme != "https" or target.port not in PORTS:
        raise AddressRefused("webhooks go to https on port 443 or 8443")
    host = target.host.lower()
    last = host.rpartition(".")[2]
    if "." not in host or ":" in host or len(host) > LONGEST_HOST or _NUMERIC_LABEL.fullmatch(last):
        raise AddressRefused("webhooks go to a full host name, not to an address")
    if host.endswith(PRIVATE_SUFFIXES):
        raise AddressRefused("webhooks go to a public host name")
    return target
