"""A run of the conformance cases against a URL: which door answers there, what is left out and why, what is said last.

`@pytest.mark.inside(reason)` marks a case that needs more than a URL: only fakes and the local gateway can be asked it.
`@pytest.mark.needs(name)` marks one that needs something that the caller of such a run may give: see `WANTED`.
The environment says all of it, because a secret on a command line is seen by everybody on the machine.
"""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

PREFIX = "CONFORMANCE_"
FOLDER = Path(__file__).parents[2] / "conformance"
ASKED_FIRST = {"kernel": "/v0/health", "worker": "/manifest", "runtime": "/capabilities"}  # each answers one door alone
WANTED = {
    "TOKEN": "TOKEN=name=secret, a credential of the door",
    "POLICY": "POLICY=yes, where the door goes by tests/conformance/kernel/policy.yaml",
    "FACILITATOR": "FACILITATOR=URL of the stub facilitator that the worker pays through (python -m local.facilitator)",
}
REQUEST_SECONDS = 150  # as long as a kernel would keep trying
LEFT_OUT = pytest.StashKey[dict[str, set[str]]]()
HELD_BACK = pytest.StashKey[dict[str, set[str]]]()


def given(name: str) -> str:
    """What the caller has said of a name, or nothing."""
    return os.environ.get(PREFIX + name, "")


def url() -> str:
    """The door that the run asks, or nothing where fakes are asked."""
    return given("URL").rstrip("/")


def credential() -> dict[str, str]:
    """The header for a token, `name=secret` (Basic at the runtime door, Bearer at others) or `secret` (Bearer)."""
    name, separator, secret = given("TOKEN").partition("=")
    if not name:
        return {}
    if not separator:
        return {"authorization": f"Bearer {name}"}
    if given("DOOR") == "runtime":
        return {"authorization": f"Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}"}
    return {"authorization": f"Bearer {secret}"}


@contextmanager
def client() -> Iterator[httpx.Client]:
    """A client of the door, with the credential."""
    most = httpx.Limits(max_connections=60)
    with httpx.Client(
        base_url=url(), headers=credential(), timeout=REQUEST_SECONDS, trust_env=False, limits=most
    ) as http:
        yield http


def find_door() -> str:
    """The door that answers at the URL, unless the caller has named it."""
    if given("DOOR") in ASKED_FIRST:
        return given("DOOR")
    for door, path in ASKED_FIRST.items():
        try:
            answer = httpx.get(url() + path, timeout=30, trust_env=False)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise pytest.UsageError(f"nobody answers at {url()}: {error}") from error
        if answer.status_code == 200 or (door == "runtime" and answer.status_code == 401):
            return door
    raise pytest.UsageError(f"{url()} does not answer as a door does; say DOOR=runtime, DOOR=worker or DOOR=kernel")


def begin() -> None:
    """Find out which door is asked, and let every slow case run."""
    os.environ[PREFIX + "DOOR"] = find_door()


def held_back(config: pytest.Config, what: str, node: pytest.Item) -> None:
    """Remember that a case has run without a question that cannot be asked over a URL."""
    config.stash.setdefault(HELD_BACK, {}).setdefault(what, set()).add(_name(node))


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot be asked over the URL; every reason is remembered."""
    reasons = config.stash.setdefault(LEFT_OUT, {})
    kept, left = [], []
    for item in items:
        why = _why_not(item)
        (left if why else kept).append(item)
        if why:
            reasons.setdefault(why, set()).add(_name(item))
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _why_not(item: pytest.Item) -> str:
    inside = item.get_closest_marker("inside")
    if inside:
        return str(inside.args[0])
    missing = [name for mark in item.iter_markers("needs") for name in mark.args if not _has(name)]
    return f"run with {WANTED[missing[0]]}" if missing else ""


def _has(name: str) -> bool:
    return "=" in given(name) if name == "TOKEN" else bool(given(name))


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What ran, and by name and reason what did not."""
    left = config.stash.get(LEFT_OUT, {})
    ran = {
        report.nodeid.rpartition("::")[2].partition("[")[0]
        for reports in reporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    }
    reporter.section(f"{given('DOOR')} door at {url()}")
    names = {name for of_reason in left.values() for name in of_reason} - ran
    reporter.write_line(f"{len(ran)} cases ran, {len(names)} need more than a URL{':' if names else ''}")
    for reason, of_reason in sorted(left.items()):
        reporter.write_line(f"  {reason}: {', '.join(sorted(of_reason))}")
    for what, cases in sorted(config.stash.get(HELD_BACK, {}).items()):
        reporter.write_line(f"{len(cases)} of those that ran were not asked {what}: {', '.join(sorted(cases))}")
