"""What a rule's `when` can ask (specification 5.2); each condition is a name and a reason why a call fails it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from piecework.kernel.policy.globs import Glob
from piecework.kernel.policy.predicates import Predicate
from piecework.kernel.policy.schedules import Schedule
from piecework.kernel.policy.verdicts import Call
from piecework.values import dataclass

ACTION: Final = "tool.invoke"  # the only action that is ever evaluated

Problem = Callable[[Call], str]  # why the call fails, or ""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition under the key it stands at."""

    key: str
    problem: Problem


def action_is(action: str) -> Problem:
    return lambda call: "" if action == ACTION else f"only {ACTION} is evaluated"


def tool_matches(globs: Iterable[Glob]) -> Problem:
    known = tuple(globs)
    return lambda call: "" if any(glob.matches(call.tool_id) for glob in known) else f"{call.tool_id} does not match"


def agent_among(agents: Iterable[str]) -> Problem:
    known = frozenset(agents)
    return lambda call: "" if call.agent_id in known else f"{call.agent_id} is another agent"


def labels_are(labels: Mapping[str, str]) -> Problem:
    """A label that the execution lacks counts as empty."""

    def problem(call: Call) -> str:
        other = [name for name, value in labels.items() if call.labels.get(name, "") != value]
        return f"another label {', '.join(other)}" if other else ""

    return problem


def arguments_hold(predicates: Iterable[Predicate]) -> Problem:
    """An explicit null counts as {}. Arguments that are absent, or not an object, never hold."""
    known = tuple(predicates)

    def problem(call: Call) -> str:
        arguments = {} if call.arguments is None else call.arguments
        if not call.has_arguments or not isinstance(arguments, dict):
            return "the arguments are not an object" if call.has_arguments else "the call has no arguments"
        return next(filter(None, (predicate.problem(arguments) for predicate in known)), "")

    return problem


def steps_at_least(least: int) -> Problem:
    return lambda call: "" if call.step_count >= least else f"{call.step_count} steps are fewer than {least}"


def age_at_least(least_ms: int) -> Problem:
    return lambda call: "" if call.age_ms >= least_ms else f"{call.age_ms} ms are fewer than {least_ms}"


def within(schedule: Schedule) -> Problem:
    return lambda call: "" if schedule.holds(call.now_ms) else f"it is not {schedule.text}"
