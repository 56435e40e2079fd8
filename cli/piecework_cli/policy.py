"""`piecework policy`: check that a policy loads, and explain its verdict on a call rule by rule."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from piecework.clock import now_in_ms
from piecework.jsons import loads
from piecework.kernel.model.notices import webhook_of
from piecework.kernel.policy.rules import PerAgent, Policy, Rule, RuleSet, explained
from piecework.kernel.policy.sources import load_path
from piecework.kernel.policy.verdicts import Call, OnTimeout, Verdict
from piecework_cli.output import CommandError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

ABOUT_A_CALL: Final = ("agent", "arguments", "label", "steps", "age_ms", "at")
WAITED_OUT: Final = {OnTimeout.DENY: "it is denied", OnTimeout.FAIL: "the execution fails"}


def add(commands: "Commands") -> None:
    """Add the group to the command line."""
    group = commands.add_parser("policy", help="check the kernel door's policy files").add_subparsers(
        required=True, metavar="ACTION"
    )
    check = group.add_parser("check", help="load a policy and explain its verdict on a call")
    check.add_argument("file", type=Path, help="a policy file, or a directory of policy files")
    check.add_argument("--tool", help="the called tool; without it the command only loads the policy")
    check.add_argument("--agent", help="the calling agent")
    check.add_argument("--arguments", metavar="JSON", help="the call's arguments; null is not the same as no arguments")
    check.add_argument("--label", action="append", metavar="NAME=VALUE", help="a label of the execution")
    check.add_argument("--steps", type=int, help="how many steps the execution has had")
    check.add_argument("--age-ms", type=int, help="the age of the execution in milliseconds")
    check.add_argument("--at", metavar="RFC3339", help="the time of the call; now without it")
    check.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Load the policy; for a tool also print each tried rule and the verdict."""
    policy = load_path(options.file)
    if options.tool is None:
        given = [f"--{name.replace('_', '-')}" for name in ABOUT_A_CALL if getattr(options, name) is not None]
        if given:
            raise CommandError(f"{', '.join(given)}: name the called tool with --tool")
        print(f"{options.file} loads: {_counted(policy)}")
        if webhooks := _webhooks(policy):
            print(f"webhooks that the door must list: {', '.join(webhooks)}")
        return
    call = call_of(options)
    for rule, problems in explained(policy, call):
        print(f"{rule.priority:>6}  {rule.id}: {_because(rule, problems)}")
    print(verdict_line(policy.decide(call)))


def call_of(options: argparse.Namespace) -> Call:
    """The call that the command line describes.

    Raises:
        CommandError: a label or the time cannot be read.
        BadRequest: the arguments are not JSON.
    """
    return Call(
        agent_id=options.agent or "",
        tool_id=options.tool,
        now_ms=_moment(options.at) if options.at else now_in_ms(),
        labels=dict(map(_label, options.label or ())),
        arguments=None if options.arguments is None else loads(options.arguments),
        has_arguments=options.arguments is not None,
        step_count=options.steps or 0,
        age_ms=options.age_ms or 0,
    )


def verdict_line(verdict: Verdict) -> str:
    """A verdict in one line."""
    reason = f": {verdict.reason}" if verdict.reason else ""
    timeout = f"; step timeout {verdict.timeout_ms} ms" if verdict.timeout_ms else ""
    limit = f"; at most {verdict.rate_limit.max} per {verdict.rate_limit.text}" if verdict.rate_limit else ""
    wait = f"; {verdict.wait.text} for an answer, then {WAITED_OUT[verdict.wait.on_timeout]}" if verdict.wait else ""
    told = f"; told under {verdict.notify}" if verdict.notify else ""
    return f"=> {verdict.decision} by {verdict.rule_id}{reason}{timeout}{limit}{wait}{told}"


def _because(rule: Rule, problems: Sequence[tuple[str, str]]) -> str:
    if problems:
        return "; ".join(f"{key} does not hold, {problem}" for key, problem in problems)
    return f"{', '.join(condition.key for condition in rule.conditions) or 'matches everything'}: holds"


def _webhooks(policy: Policy) -> list[str]:
    sets = [*policy.agents.values(), policy.others] if isinstance(policy, PerAgent) else [policy]
    rules = [rule for part in sets if isinstance(part, RuleSet) for rule in part.rules]
    return sorted({webhook_of(rule.then.notify) for rule in rules} - {""})


def _counted(policy: Policy) -> str:
    if isinstance(policy, PerAgent):
        others = (
            "no rules for other agents"
            if policy.others is None
            else f"{len(policy.others.rules)} rules for everyone else"
        )
        agents = [f"{len(rules.rules)} rules for {agent_id}" for agent_id, rules in policy.agents.items()]
        return ", ".join([*agents, others])
    return f"{len(policy.rules)} rules" if isinstance(policy, RuleSet) else ""


def _label(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise CommandError("a label has the form NAME=VALUE")
    return name, value


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandError("--at has the form 2026-03-01T09:30:00Z")
    return int(moment.timestamp() * 1000)
