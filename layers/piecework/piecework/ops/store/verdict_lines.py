"""The lines of the function that judges, in its group of CloudWatch Logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.failing import aws_errors
from piecework.aws.transport.failures import ServiceRefused
from piecework.errors import BadRequest
from piecework.jsons import Json, loads
from piecework.ops.verdicts import STATUSES, Part, Verdict, VerdictLog

if TYPE_CHECKING:
    from piecework.aws.transport.logs import Logs

THE_LOG: Final = "the log"
LINE: Final = "verify"  # what the lines of the function's outcomes are called
MOST_LINES: Final = 5_000  # of one answer
LINE_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
MARK: Final = '"verification_status"'  # in every line of a verdict; the function writes others too
# Characters that stand for themselves between the quotes of a pattern. A text goes into it up to its first other one.
PLAIN: Final = re.compile(r"[0-9A-Za-z_.:-]*")
PLAIN_CHARACTERS: Final = 100  # of each text; a pattern has at most 1,024
NO_GROUP: Final = "ResourceNotFoundException"
TEXTS: Final = (
    *("policy_id", "policy_hash_rule", "candidate_id", "execution_id", "caller", "output_digest"),
    "verifier_result_hash",
)


class VerdictLines(VerdictLog):
    """Verdicts in a log group; CloudWatch has a line some seconds after it was written."""

    def __init__(self, logs: Callable[[], Logs], group: str) -> None:
        self._logs, self._group = logs, group

    def part(self, since_ms: int, until_ms: int, begins: Mapping[str, str], token: str) -> Part:
        asked = {
            "logGroupName": self._group,
            "startTime": since_ms,
            "endTime": until_ms,
            "limit": MOST_LINES,
            "filterPattern": pattern(begins),
            **({"nextToken": token} if token else {}),
        }
        with aws_errors(THE_LOG):
            try:
                answer = self._logs().filter_log_events(**asked)
            except ServiceRefused as refused:
                if refused.code != NO_GROUP:
                    raise
                return Part((), is_last=True)  # nothing was ever written, or somebody deleted it
        events, following = answer.get("events", []), answer.get("nextToken") or ""
        # An emulator may stop at the limit without a token. If CloudWatch does, a shorter stretch has the same lines.
        is_last = not following and len(events) < MOST_LINES
        return Part([*filter(None, map(_verdict, events))], is_last, following)


def pattern(begins: Mapping[str, str]) -> str:
    """A pattern for at least the lines of verdicts whose members begin so.

    Of a stranger's text only characters without a meaning get in. It ends in a wildcard, as every text does.
    """
    texts = {"message": LINE, "verification_status": "", **begins}
    terms = (f'($.{name} = "{_plain(text)}*")' for name, text in texts.items())
    return f"{{ {' && '.join(terms)} }}"


def _plain(text: str) -> str:
    found = PLAIN.match(text)
    return found[0][:PLAIN_CHARACTERS] if found else ""


def _verdict(event: Mapping[str, Any]) -> Verdict | None:
    """The verdict of a line; None for every other line."""
    text, at_ms = event.get("message"), event.get("timestamp")
    if not isinstance(text, str) or MARK not in text or not isinstance(at_ms, int):
        return None
    try:
        line = loads(text)
    except BadRequest:
        return None
    if not isinstance(line, dict) or line.get("message") != LINE or line.get("verification_status") not in STATUSES:
        return None
    codes, score = line.get("reason_codes"), line.get("score")
    return Verdict(
        at_ms=at_ms,
        line_id=_line_id(str(event.get("eventId")), text),
        reason_codes=tuple(code for code in codes if type(code) is int) if isinstance(codes, list) else (),
        score=float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None,
        **{name: _text(line.get(name)) for name in TEXTS},
        verification_status=str(line["verification_status"]),
    )


def _line_id(given: str, text: str) -> str:
    return given if LINE_ID.fullmatch(given) else sha256(f"{given} {text}".encode("utf-8", "replace")).hexdigest()


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
