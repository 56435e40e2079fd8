"""Rules in their order, and the decision they come to: the first rule whose conditions all hold."""

from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from typing import Final, Protocol

from piecework.kernel.policy.conditions import Condition
from piecework.kernel.policy.verdicts import Call, Decision, Verdict
from piecework.values import dataclass

DEFAULT: Final = "default"  # the rule id of a call that no rule matches
DENIED: Final = Verdict(Decision.DENY, "No explicit allow rule matched", DEFAULT)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    priority: int
    conditions: Sequence[Condition]
    then: Verdict

    def problems(self, call: Call) -> list[tuple[str, str]]:
        """The conditions that do not hold, each with its reason."""
        found = ((condition.key, condition.problem(call)) for condition in self.conditions)
        return [(key, problem) for key, problem in found if problem]

    def matches(self, call: Call) -> bool:
        """Whether every condition holds."""
        return not any(condition.problem(call) for condition in self.conditions)


class Policy(Protocol):
    """Decides about tool calls; pure, and never raises."""

    def decide(self, call: Call) -> Verdict: ...

    def rules_for(self, agent_id: str) -> Sequence[Rule]:
        """What is tried for an agent, in this order."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one file, or of an agent's and the global file together, sorted by priority."""

    rules: Sequence[Rule]
    default: Verdict = DENIED

    def decide(self, call: Call) -> Verdict:
        """The first matching rule's verdict, else the default."""
        return next((rule.then for rule in self.rules if rule.matches(call)), self.default)

    def rules_for(self, agent_id: str) -> Sequence[Rule]:
        return self.rules


@dataclass(frozen=True, slots=True)
class PerAgent:
    """A directory's policies: one for each agent with a file, and what everyone else gets."""

    agents: Mapping[str, RuleSet]
    others: RuleSet | None = None  # None: the directory has no global file

    def decide(self, call: Call) -> Verdict:
        """What the agent's own rules, or everyone's, say."""
        known = self.agents.get(call.agent_id, self.others)
        if known is None:
            reason = f"no policy configured for agent {dumps(call.agent_id, ensure_ascii=False)}"
            return Verdict(Decision.DENY, reason, "agent-default")
        return known.decide(call)

    def rules_for(self, agent_id: str) -> Sequence[Rule]:
        known = self.agents.get(agent_id, self.others)
        return known.rules if known else ()


PERMISSIVE: Final = RuleSet((), Verdict(Decision.ALLOW, "", "permissive-default"))
SECURE: Final = RuleSet((), Verdict(Decision.DENY, "No policy engine configured", "secure-default"))


def longest_wait_ms(policy: Policy, agent_id: str) -> int:
    """How long a person may be waited for at most, when an agent calls a tool; 0 where no rule says so."""
    return max((rule.then.wait.timeout_ms for rule in policy.rules_for(agent_id) if rule.then.wait), default=0)


def explained(policy: Policy, call: Call) -> Iterator[tuple[Rule, list[tuple[str, str]]]]:
    """Each rule that is tried, with the conditions that do not hold; ends with the first that matches."""
    for rule in policy.rules_for(call.agent_id):
        problems = rule.problems(call)
        yield rule, problems
        if not problems:
            return
