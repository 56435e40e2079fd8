"""Where a service is: what the environment names, else AWS's own host for the region.

The names in the environment are AWS's: `AWS_ENDPOINT_URL_<SERVICE>`, `AWS_ENDPOINT_URL`,
`AWS_IGNORE_CONFIGURED_ENDPOINT_URLS`, `AWS_USE_FIPS_ENDPOINT`, `AWS_USE_DUALSTACK_ENDPOINT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from piecework.aws.transport.failures import NotConfigured

# Partitions by the beginning of their regions' names: domain, and domain of endpoints for IPv6 too.
PARTITIONS: Final[Mapping[str, tuple[str, str]]] = {
    "cn-": ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    "us-iso-": ("c2s.ic.gov", "api.aws.ic.gov"),
    "us-isob-": ("sc2s.sgov.gov", "api.aws.scloud"),
    "us-isof-": ("csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    "eu-isoe-": ("cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    "eusc-": ("amazonaws.eu", "api.amazonwebservices.eu"),
}
COMMON: Final = ("amazonaws.com", "api.aws")
# Where the usual host of Secrets Manager has IPv6 too, by domain and whether FIPS is asked for.
BOTH_STACKS: Final = frozenset({("amazonaws.com", False), ("amazonaws.com", True), ("amazonaws.com.cn", False)})
PLAIN_IN_GOV: Final = frozenset(
    {"dynamodb", "logs", "monitoring", "sns", "sqs", "ssm"}
)  # their usual hosts in us-gov are FIPS endpoints already
S3: Final = "s3"
PLAIN_IN_GOV_WITH_IPV6: Final = frozenset({"monitoring"})  # and these where IPv6 is asked for, too
OWN_NAMES: Final[Mapping[str, str]] = {  # in variables
    "logs": "CLOUDWATCH_LOGS",
    "monitoring": "CLOUDWATCH",
    "secretsmanager": "SECRETS_MANAGER",
}
SECRETS_MANAGER: Final = "secretsmanager"
LAST_PORT: Final = 65_535


class Origin(NamedTuple):
    """A host that connections are opened to."""

    is_tls: bool
    host: str
    port: int

    @property
    def host_header(self) -> str:
        """The host as a request names it: with its port where it is not the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.is_tls else 80) else f"{name}:{self.port}"


class Endpoint(NamedTuple):
    """A service's origin, the path that its own paths follow, and whether the environment chose it."""

    origin: Origin
    path: str
    is_given: bool


def region_of(env: Mapping[str, str]) -> str:
    """The region of the environment. Raises NotConfigured without one."""
    region = env.get("AWS_DEFAULT_REGION") or env.get("AWS_REGION")
    if not region:
        raise NotConfigured("the AWS region is missing: AWS_REGION is not set")
    return region


def endpoint_of(service: str, env: Mapping[str, str], region: str) -> Endpoint:
    """The endpoint of a service, whose name is that of its usual host. Raises NotConfigured for an unreadable URL."""
    given = given_url(service, env)
    if given:
        origin, path = origin_of(given)
        return Endpoint(origin, path.rstrip("/"), True)
    return Endpoint(Origin(True, _host(service, env, region), 443), "", False)


def origin_of(url: str) -> tuple[Origin, str]:
    """The origin and the path of a URL. Raises NotConfigured for another than http and https."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":") if not authority.endswith("]") else (authority, "", "")
    if not colon:
        host, port = authority, ""
    is_port = not port or (port.isdecimal() and len(port) <= 5 and int(port) <= LAST_PORT)
    if scheme not in ("http", "https") or not _is_host(host.strip("[]")) or not is_port or not _is_plain(path):
        raise NotConfigured("an endpoint's URL is not http://host[:port] or https://host[:port]")
    is_tls = scheme == "https"
    return Origin(is_tls, host.strip("[]").lower(), int(port) if port else 443 if is_tls else 80), slash + path


def given_url(service: str, env: Mapping[str, str]) -> str:
    """The URL that the environment names for a service, or an empty text."""
    if _is_on(env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return ""
    own = OWN_NAMES.get(service, service.upper())
    return env.get(f"AWS_ENDPOINT_URL_{own}") or env.get("AWS_ENDPOINT_URL") or ""


def _host(service: str, env: Mapping[str, str], region: str) -> str:
    is_fips, is_dual = _is_on(env, "AWS_USE_FIPS_ENDPOINT"), _is_on(env, "AWS_USE_DUALSTACK_ENDPOINT")
    if not all(part.isalnum() for part in region.split("-")) or not region.isascii():
        raise NotConfigured("AWS_REGION is not the name of a region")
    common, dual = next((found for start, found in PARTITIONS.items() if region.startswith(start)), COMMON)
    if service == S3:
        names = ("s3-fips" if is_fips else S3, *(("dualstack",) if is_dual else ()))
        return ".".join((*names, region, common))
    if service == SECRETS_MANAGER and (common, is_fips) in BOTH_STACKS:
        dual = common
    plain = PLAIN_IN_GOV_WITH_IPV6 if is_dual else PLAIN_IN_GOV
    is_plain = service in plain and region.startswith("us-gov-")
    name = f"{service}-fips" if is_fips and not is_plain else service
    return f"{name}.{region}.{dual if is_dual else common}"


def _is_host(name: str) -> bool:
    labels = name.split(".")
    return _is_plain(name) and not set(name) & set("@?#/\\") and all(0 < len(label) < 64 for label in labels)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _is_on(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").lower() == "true"
