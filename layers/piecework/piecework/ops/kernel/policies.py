"""The policy that is deployed now: its files, and what each of its rules says of a call."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from piecework.clock import DAY_MS
from piecework.edge.http import Response
from piecework.errors import SettingsError, Unavailable
from piecework.jsons import Json
from piecework.kernel.edge import moment
from piecework.ops.door import Asked
from piecework.ops.kernel.asking import answered, labels, members, text, whole
from piecework.ops.query import texts

if TYPE_CHECKING:
    from piecework.kernel.policy.rules import Policy
    from piecework.kernel.policy.verdicts import Verdict

TEXT_BYTES: Final = 4_000_000  # of all files in one answer, which fits the 6 MB of a function's
MOST_STEPS: Final = 1_000_000  # of the call that is asked about
MOST_AGE_MS: Final = 3_650 * DAY_MS
OF_A_CALL: Final = ("agent_id", "tool_id", "arguments", "labels", "step_count", "age_ms", "at")


class Policies:
    """Reads the policy anew for each request; environments of the kernel door keep the one of their start."""

    def __init__(
        self, policy: Callable[[], "Policy"], files: Callable[[], Mapping[str, str]], clock: Callable[[], int]
    ) -> None:
        self._policy, self._files, self._clock = policy, files, clock

    def show(self, asked: Asked) -> Response:
        """The answer of GET /ops/kernel/policy: its files, and why it does not load if it does not."""
        texts(asked.request.query)
        problem, files = None, dict[str, str]()
        try:
            files = dict(self._files())
            self._policy()
        except SettingsError as error:
            problem = error.message
        shown, size = list[Json](), 0
        for name, content in files.items():
            size += len(content.encode("utf-8", "replace"))
            if size > TEXT_BYTES:
                break
            shown.append({"name": name, "text": content})
        return answered({"files": shown, "is_complete": len(shown) == len(files), "problem": problem})

    def evaluate(self, asked: Asked) -> Response:
        """The answer of POST /ops/kernel/policy/evaluate: the verdict on a call, and each rule that was tried for it.

        Raises:
            BadRequest: the call has no meaning.
            Unavailable: the policy does not load.
        """
        from piecework.kernel.policy.rules import explained
        from piecework.kernel.policy.verdicts import Call

        body = members(asked.request, *OF_A_CALL, or_null="arguments")
        at = moment("at", text(body, "at"))
        call = Call(
            agent_id=text(body, "agent_id", is_needed=True),
            tool_id=text(body, "tool_id", is_needed=True),
            now_ms=self._clock() if at is None else at,
            labels=labels(body),
            arguments=body.get("arguments"),
            has_arguments="arguments" in body,
            step_count=whole(body, "step_count", MOST_STEPS) or 0,
            age_ms=whole(body, "age_ms", MOST_AGE_MS) or 0,
        )
        try:
            policy = self._policy()
        except SettingsError as error:
            raise Unavailable(f"the policy does not load: {error.message}") from None
        tried: list[Json] = [
            {
                "id": rule.id,
                "priority": rule.priority,
                "matches": not problems,
                "problems": [{"condition": key, "problem": problem} for key, problem in problems],
            }
            for rule, problems in explained(policy, call)
        ]
        return answered({**_verdict_body(policy.decide(call)), "rules": tried})


def _verdict_body(verdict: "Verdict") -> dict[str, Json]:
    limit, wait = verdict.rate_limit, verdict.wait
    return {
        "decision": verdict.decision.value,
        "reason": verdict.reason,
        "rule_id": verdict.rule_id,
        "timeout_ms": verdict.timeout_ms,
        "rate_limit": {"max": limit.max, "window": limit.text} if limit else None,
        "wait": {"timeout": wait.text, "on_timeout": wait.on_timeout.value} if wait else None,
        "is_private": verdict.is_private,
    }
