"""Run the cases against a deployment: `python -m local.conformance URL [TOKEN]`, TOKEN being name=secret or secret."""

import argparse
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Final

import httpx

from local.conformance import envelope, events, executing, verifying
from local.conformance.target import Failed, NotApplicable, Target

Case = Callable[[Target], None]
# Cases of the specification that cannot be told from outside, or need a slow, a failing or a killed executor.
NOT_OVER_HTTP: Final = (
    "base64_encoded_gateway_body",
    "prefixed_path",
    "duplicate_while_running",
    "five_timeouts_sequence",
    "crash_recovery",
    "transient_not_cached",
    "inconclusive_rules",
    "ssrf_guard",
)


def cases() -> Iterator[tuple[str, Case]]:
    """Every case by name, in the specification's order of parts."""
    for module in (envelope, executing, verifying, events):
        yield from _public(module)


def _public(module: ModuleType) -> Iterator[tuple[str, Case]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value):
            yield name, value


def main() -> int:
    """Print one line per case; returns 1 when one fails."""
    parser = argparse.ArgumentParser(prog="local.conformance", description=__doc__)
    parser.add_argument("url", help="base URL of the runtime door")
    parser.add_argument("token", nargs="?", default="", help="name=secret (Basic) or secret (Bearer)")
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    target = Target(arguments.url, arguments.token)
    outcomes = [_run(name, case, target) for name, case in cases() if not arguments.case or name in arguments.case]
    target.http.close()
    for name in NOT_OVER_HTTP:
        print(f"-       {name}: not told over HTTP; the test suite has it")
    print(f"{outcomes.count('pass')} passed, {outcomes.count('FAIL')} failed, {outcomes.count('skip')} skipped")
    return 1 if "FAIL" in outcomes or not outcomes else 0


def _run(name: str, case: Case, target: Target) -> str:
    outcome, why = "pass", ""
    try:
        case(target)
    except NotApplicable as error:
        outcome, why = "skip", f": {error}"
    except Failed as error:
        outcome, why = "FAIL", f": {error}"
    except (httpx.HTTPError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        outcome, why = "FAIL", f": {type(error).__name__}: {error}"  # the answer had not even the shape to look into
    print(f"{outcome:8}{name}{why}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
