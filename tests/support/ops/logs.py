"""CloudWatch Logs in memory, as unhelpful as it may be: late lines, parts that are small or empty, any stream first.

It takes what the real one takes: patterns over members of JSON whose texts end in a wildcard at most, tokens with the
parameters that they were given for, at most 10,000 lines, and stretches whose end is not before their start.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from piecework.aws.transport.failures import ServiceRefused
from tests.support.fakes import START_MS

DAY_MS = 86_400_000
TERM = re.compile(r'\(\$\.([a-z_]+) = "([0-9A-Za-z_.:-]*)(\*?)"\)')
TAKEN = {"logGroupName", "startTime", "endTime", "limit", "filterPattern", "nextToken"}


@dataclass
class FakeLogs:
    """One log group, which is not there before its first line. `now_ms` is the service's own time."""

    group: str = "verify"
    now_ms: int = START_MS
    kept_days: int = 30
    most_scanned: int = 1_000  # lines that one request looks at
    empty_first: bool = False  # each stretch begins with an empty part
    failures: list[ServiceRefused] = field(default_factory=list)  # of the next requests
    asked: list[dict[str, Any]] = field(default_factory=list)
    on_ask: Any = None
    _lines: list[tuple[int, str, str, int]] = field(default_factory=list)
    _tokens: dict[str, tuple[str, int]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=count)

    def write(self, text: str, at_ms: int, *, late_ms: int = 0) -> None:
        """A line that is found from `late_ms` after its moment on."""
        self._lines.append((at_ms, f"{next(self._numbers) * 7919 % 100_003:056d}", text, at_ms + late_ms))

    def verdict(self, at_ms: int = START_MS - 1_000, *, late_ms: int = 0, **members: Any) -> None:
        """The line of a verdict."""
        self.write(json.dumps(a_line(**members), ensure_ascii=False), at_ms, late_ms=late_ms)

    def filter_log_events(self, **given: Any) -> dict[str, Any]:
        self.asked.append(given)
        if self.on_ask:
            self.on_ask()
        if self.failures:
            raise self.failures.pop(0)
        if not self._lines or given["logGroupName"] != self.group:
            raise ServiceRefused("ResourceNotFoundException", operation="FilterLogEvents")
        self._check(given)
        found = self._found(given)
        start = self._start(given)
        if start == 0 and self.empty_first and "nextToken" not in given:
            return {"events": [], "nextToken": self._token(given, 0)}
        scanned = found[start : start + min(self.most_scanned, given["limit"])]
        terms = TERM.findall(given["filterPattern"])
        events = [event for event in scanned if all(_matches(event["message"], *term) for term in terms)]
        end = start + len(scanned)
        return {"events": events, **({"nextToken": self._token(given, end)} if end < len(found) else {})}

    def _check(self, given: dict[str, Any]) -> None:
        pattern = given["filterPattern"]
        is_read = re.fullmatch(rf"{{ {TERM.pattern}( && {TERM.pattern})* }}", pattern)
        is_right = (
            given.keys() <= TAKEN and 0 <= given["startTime"] <= given["endTime"] and 1 <= given["limit"] <= 10_000
        )
        if not is_right or not is_read or len(pattern) > 1_024:
            raise ServiceRefused("InvalidParameterException", pattern, operation="FilterLogEvents")

    def _found(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        oldest = max(given["startTime"], self.now_ms - self.kept_days * DAY_MS)
        return [
            {"eventId": line_id, "timestamp": at_ms, "message": text, "logStreamName": line_id[-1]}
            for at_ms, line_id, text, seen_ms in sorted(self._lines, key=lambda line: line[0])
            if oldest <= at_ms <= given["endTime"] and seen_ms <= self.now_ms
        ]

    def _start(self, given: dict[str, Any]) -> int:
        if "nextToken" not in given:
            return 0
        asked, start = self._tokens.pop(given["nextToken"], ("", 0))
        if asked != _same(given):
            raise ServiceRefused("InvalidParameterException", "nextToken", operation="FilterLogEvents")
        return start

    def _token(self, given: dict[str, Any], start: int) -> str:
        token = f"token+/={next(self._numbers)}"
        self._tokens[token] = (_same(given), start)
        return token


def a_line(status: str = "passed", codes: tuple[int, ...] = (100,), **members: Any) -> dict[str, Any]:
    """What the function writes of a verdict."""
    return {
        "level": "INFO",
        "message": "verify",
        "service": "runtime-verify",
        "caller": "kernel",
        "candidate_id": "cand-1",
        "execution_id": "e-1",
        "output_digest": "sha256:" + "ab" * 32,
        "policy_id": "vp.schema_only.v1",
        "verification_status": status,
        "reason_codes": list(codes),
        "score": 1.0,
        "verifier_result_hash": "cd" * 32,
        "policy_hash_rule": "kernel",
        "notes": [],
        "status": 200,
        **members,
    }


def _same(given: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in given.items() if name != "nextToken"}, sort_keys=True)


def _matches(text: str, name: str, begin: str, wildcard: str) -> bool:
    try:
        value = json.loads(text)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(value, str) and (value.startswith(begin) if wildcard else value == begin)
