"""The addresses that a stranger's URL may lead to: public ones only, in any spelling."""

import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

from piecework.errors import PieceworkError
from piecework.values import dataclass

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
Allow = Callable[[Address], bool]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
LONGEST_URL: Final = 4_096  # characters; signed links of the large clouds stay under 2,000
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_IN_PATHS: Final = "/%:@!$&'()*+,;=~[]"  # marks that are not encoded
_PLAIN: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*\.?")
# The C library reads these as IPv4 addresses: 2130706433, 0x7f.1, 0177.0.0.1
_ENDS_IN_NUMBER: Final = re.compile(r"(?:.*\.)?(?:\d+|0[xX][0-9A-Fa-f]*)\.?")

# Listed here because the lists in Python's ipaddress differ from version to version.
_NEVER: Final = tuple(
    ip_network(net)
    for net in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/3",
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
)  # fmt: skip
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")  # IPv6-only subnets reach public IPv4 hosts through it


class AddressRefused(PieceworkError):
    """The URL leads to an address that must not be called."""

    code: ClassVar[str] = "address_refused"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an http(s) URL; `host` is without brackets and without a closing dot."""

    scheme: str
    host: str
    port: int
    path: str
    host_header: str


def parse_target(url: str) -> Target:
    """Read an absolute http or https URL.

    Raises:
        AddressRefused: the URL has another scheme, credentials, other than plain ASCII, or a host in a misleading form.
    """
    if len(url) > LONGEST_URL or not _PLAIN.fullmatch(url) or "\\" in url:
        raise AddressRefused("the address is not a plain ASCII URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("the address is not a URL") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise AddressRefused("only http and https addresses are fetched")
    if "@" in parts.netloc or port == 0:
        raise AddressRefused("addresses with credentials or port 0 are not fetched")
    host = _host(parts.hostname, bracketed="[" in parts.netloc)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], path, parts.netloc)


def chosen_target(url: str) -> Target:
    """Read an http or https URL that the operator chose: any host is allowed; a user name in it is not sent.

    Raises:
        AddressRefused: the text is not such a URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        name = parts.hostname or ""
        host = name if name.isascii() else name.encode("idna").decode("ascii")
    except ValueError:  # UnicodeError too: the name cannot be encoded
        raise AddressRefused("the address is not a URL") from None
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise AddressRefused("the address must be http or https")
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path, safe=_IN_PATHS) or "/"
    query = f"?{quote(parts.query, safe=_IN_PATHS + '?')}" if parts.query else ""
    return Target(
        parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], path + query, f"{shown}:{port}" if port else shown
    )


def vet(target: Target, resolve: Resolve, allow: Allow) -> list[str]:
    """The addresses to connect to. Each is allowed; the name is resolved only here.

    Raises:
        AddressRefused: the name does not have an address, or one of its addresses is not allowed.
        OSError: the name cannot be resolved.
    """
    literal = _literal(target.host)
    found = [target.host] if literal else list(resolve(target.host, target.port))
    if not found or not all(allow(ip_address(address)) for address in found):
        raise AddressRefused("the address does not lead to the public internet")
    return found


def resolve_name(host: str, port: int) -> list[str]:
    """All addresses of a name, in the order of the system's resolver."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)]


def is_public(address: Address) -> bool:
    """Whether an address is one unicast host of the public internet.

    IPv4 inside NAT64 counts as the IPv4 address. IPv4-mapped and -compatible, 6to4, Teredo, local-use NAT64 and all
    other special forms are refused whatever they contain: public hosts do not need them.
    """
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
        if address not in _GLOBAL_UNICAST or address.scope_id:
            return False
    return address.is_global and not any(address in net for net in _NEVER)


def _host(host: str, *, bracketed: bool) -> str:
    literal = _literal(host)
    if literal and bracketed == isinstance(literal, IPv6Address):
        return host
    if literal or bracketed or _ENDS_IN_NUMBER.fullmatch(host):
        raise AddressRefused("numeric hosts must be plain IPv4 or bracketed IPv6 addresses")
    if not _NAME.fullmatch(host):
        raise AddressRefused("the host is not a name")
    return host.removesuffix(".")


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_https_or_loopback(url: str) -> bool:
    """Whether one of our own URLs is secure: https, or plain http within this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))
