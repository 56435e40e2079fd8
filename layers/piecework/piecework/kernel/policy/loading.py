"""Policy files to policies (specification 5.1 and 5.4): pure, and anything that could be a mistake is refused."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from piecework.clock import DAY_MS
from piecework.jsons import Json
from piecework.kernel.policy.conditions import (
    Condition,
    Problem,
    action_is,
    age_at_least,
    agent_among,
    arguments_hold,
    labels_are,
    steps_at_least,
    tool_matches,
    within,
)
from piecework.kernel.policy.durations import duration_ms
from piecework.kernel.policy.fields import Fields
from piecework.kernel.policy.globs import Glob
from piecework.kernel.policy.patterns import BadPattern, Search
from piecework.kernel.policy.predicates import Predicate
from piecework.kernel.policy.reading import PolicyInvalid, read_document
from piecework.kernel.policy.rules import DEFAULT, DENIED, PerAgent, Rule, RuleSet
from piecework.kernel.policy.schedules import Schedule
from piecework.kernel.policy.verdicts import Decision, OnTimeout, RateLimit, Verdict, Wait

GLOBAL: Final = "_global"
SUFFIXES: Final = (".yaml", ".yml")
MAX_FILES: Final = 1_000
MAX_RULES: Final = 2_000  # of one agent, its own and the global ones
MAX_CALLS: Final = 10_000  # of one window: they are kept in one item of 6 bytes each
MAX_WAIT_MS: Final = 366 * DAY_MS  # for a person
OF_APPROVALS: Final = ("timeout", "on_timeout", "private", "notify")
NOTIFY: Final = re.compile(r"(webhook:)?[A-Za-z0-9_-]{1,64}")  # on the topic, or by that webhook
CONSTRAINTS: Final = ("pattern", "one_of", "min", "max", "max_length")

Reader = Callable[[Fields, str], Problem]


def load_file(data: bytes, name: str) -> RuleSet:
    """The policy of one file.

    Raises:
        PolicyInvalid: it cannot be read, or holds anything that specification 5.1 refuses.
    """
    rules, default = _file(data, name)
    return RuleSet(_sorted(rules, name), default or DENIED)


def load_directory(files: Mapping[str, bytes]) -> PerAgent:
    """The policy of a directory's files, `<agent_id>.yaml` or `.yml` and `_global.yaml`; names come without a folder.

    Raises:
        PolicyInvalid: as `load_file`, or two files are for one agent, a file's name is not an agent's, or there are no
            files, or too many.
    """
    if not 0 < len(files) <= MAX_FILES:
        raise PolicyInvalid(f"the policy directory holds {len(files)} files, not 1 to {MAX_FILES}")
    names: dict[str, str] = {}
    for name in sorted(files):
        agent_id = agent_of(name)
        if agent_id in names:
            raise PolicyInvalid(f"{name}: {names[agent_id]} is there as well")
        names[agent_id] = name
    loaded = {agent_id: _file(files[name], name) for agent_id, name in names.items()}
    common, common_default = loaded.pop(GLOBAL, ([], None))
    agents = {
        agent_id: RuleSet(_sorted([*own, *common], names[agent_id]), default or DENIED)
        for agent_id, (own, default) in loaded.items()
    }
    if GLOBAL not in names:
        return PerAgent(agents)
    return PerAgent(agents, RuleSet(_sorted(common, names[GLOBAL]), common_default or DENIED))


def is_passed_over(name: str) -> bool:
    """Whether a directory may hold this file beside its policies: hidden ones, and notes in Markdown."""
    return name.startswith(".") or name.endswith(".md")


def agent_of(name: str) -> str:
    """The agent whose file this is.

    Raises:
        PolicyInvalid: the name is not that of a policy file.
    """
    stem = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), "")
    if not stem:
        raise PolicyInvalid(f"{name}: a policy file is called <agent_id>.yaml, <agent_id>.yml or {GLOBAL}.yaml")
    return stem


def _file(data: bytes, name: str) -> tuple[list[Rule], Verdict | None]:
    document = Fields(read_document(data, name), name, ("rules", "default"))
    if "rules" not in document and "default" not in document:
        raise PolicyInvalid(f"{name}: holds neither `rules` nor `default`")
    found = [] if document.value("rules") is None else document.value("rules")
    if not isinstance(found, list):
        raise document.invalid("rules", "must be a list")
    rules = [_rule(value, f"{name}: {_called(value, place)}") for place, value in enumerate(found, 1)]
    twice = [rule_id for rule_id, count in Counter(rule.id for rule in rules).items() if count > 1]
    if twice:
        raise PolicyInvalid(f"{name}: rule {twice[0]}: another rule has this `id`")
    _sorted(rules, name)
    return rules, _default(document) if "default" in document else None


def _called(value: Json, place: int) -> str:
    rule_id = value.get("id") if isinstance(value, dict) else None
    return f"rule {rule_id}" if isinstance(rule_id, str) and rule_id else f"rule number {place}"


def _default(document: Fields) -> Verdict:
    fields = Fields(document.value("default"), f"{document.where}: default", ("decision", "reason"))
    return Verdict(_decision(fields), _reason(fields), DEFAULT)


def _sorted(rules: list[Rule], name: str) -> tuple[Rule, ...]:
    """Rules by priority."""
    if len(rules) > MAX_RULES:
        raise PolicyInvalid(f"{name}: more than {MAX_RULES} rules apply")
    holders: dict[int, str] = {}
    for rule in rules:
        if other := holders.get(rule.priority):
            raise PolicyInvalid(f"{name}: rule {rule.id}: `priority` {rule.priority} is that of rule {other}")
        holders[rule.priority] = rule.id
    return tuple(sorted(rules, key=lambda rule: rule.priority))


def _rule(value: Json, where: str) -> Rule:
    fields = Fields(value, where, ("id", "priority", "when", "then", "rate_limit"))
    rule_id = fields.text("id")
    priority = fields.whole("priority") if "priority" in fields else 0
    when = {} if fields.value("when") is None else fields.value("when")
    limit = _rate_limit(fields.value("rate_limit"), f"{where}: rate_limit") if "rate_limit" in fields else None
    return Rule(rule_id, priority, _conditions(when, f"{where}: when"), _then(fields, rule_id, limit))


def _then(fields: Fields, rule_id: str, limit: RateLimit | None) -> Verdict:
    """The verdict; time and rate limits mean nothing unless the call goes on at once, and are left out then."""
    then = Fields(fields.value("then"), f"{fields.where}: then", ("decision", "reason", "timeout_ms", *OF_APPROVALS))
    decision = _decision(then)
    wait = _wait(then, decision)
    timeout_ms = then.whole("timeout_ms", 0) if "timeout_ms" in then else 0
    if decision is not Decision.ALLOW:
        return Verdict(
            decision, _reason(then), rule_id, wait=wait, is_private=then.switch("private"), notify=_notify(then)
        )
    return Verdict(decision, _reason(then), rule_id, timeout_ms or None, limit)


def _wait(then: Fields, decision: Decision) -> Wait | None:
    """How long a person is waited for, or None where the rule does not say so."""
    said = [key for key in OF_APPROVALS if key in then]
    if said and decision is not Decision.REQUIRE_APPROVAL:
        raise then.invalid(said[0], f"needs `decision: {Decision.REQUIRE_APPROVAL}`; a tool's own time is `timeout_ms`")
    if "on_timeout" in said and "timeout" not in said:
        raise then.invalid("on_timeout", "needs `timeout`")
    return _timeout(then) if "timeout" in said else None


def _notify(then: Fields) -> str:
    name = then.text("notify") if "notify" in then else ""
    if "://" in name:
        raise then.invalid("notify", "must name a webhook, as `webhook:NAME`; its URL stands in the stack's settings")
    if name and not NOTIFY.fullmatch(name):
        raise then.invalid(
            "notify", "must be a name of 1 to 64 letters, digits, `_` and `-`, or `webhook:` and such a name"
        )
    return name


def _timeout(then: Fields) -> Wait:
    text, end = then.text("timeout"), then.value("on_timeout") if "on_timeout" in then else OnTimeout.DENY
    if end not in tuple(OnTimeout):
        raise then.invalid("on_timeout", f"must be one of {', '.join(OnTimeout)}")
    try:
        timeout_ms = duration_ms(text)
    except ValueError as error:
        raise then.invalid("timeout", f"is {error}") from None
    if timeout_ms > MAX_WAIT_MS:
        raise then.invalid("timeout", f"must be {MAX_WAIT_MS // DAY_MS} days ({MAX_WAIT_MS // DAY_MS * 24}h) or less")
    return Wait(timeout_ms, OnTimeout(end), text)


def _decision(fields: Fields) -> Decision:
    value = fields.value("decision")
    if value not in tuple(Decision):
        raise fields.invalid("decision", f"must be one of {', '.join(Decision)}")
    return Decision(value)


def _reason(fields: Fields) -> str:
    return fields.text("reason") if fields.value("reason") not in (None, "") else ""


def _rate_limit(value: Json, where: str) -> RateLimit:
    fields = Fields(value, where, ("max", "window"))
    most, window = fields.whole("max", 1), fields.text("window")
    if most > MAX_CALLS:
        raise fields.invalid("max", f"must be {MAX_CALLS} or less")
    try:
        return RateLimit(most, duration_ms(window), window)
    except ValueError as error:
        raise fields.invalid("window", f"is {error}") from None


def _conditions(value: Json, where: str) -> list[Condition]:
    fields = Fields(value, where, CONDITIONS)
    return [Condition(key, read(fields, key)) for key, read in CONDITIONS.items() if key in fields]


def _schedule(fields: Fields, key: str) -> Problem:
    try:
        return within(Schedule.of(fields.text(key)))
    except ValueError as error:
        raise fields.invalid(key, str(error)) from None


def _arguments(fields: Fields, key: str) -> Problem:
    where = f"{fields.where}.{key}"
    return arguments_hold(_predicate(item, f"{where}[{place}]") for place, item in enumerate(fields.items(key)))


def _predicate(value: Json, where: str) -> Predicate:
    fields = Fields(value, where, ("field", "required", *CONSTRAINTS))
    required = fields.switch("required")
    if "field" not in fields:
        raise PolicyInvalid(f"{where}: `field` is missing")
    if not required and not any(key in fields for key in CONSTRAINTS):
        raise PolicyInvalid(f"{where}: asks nothing; give it one of required, {', '.join(CONSTRAINTS)}")
    least, most = fields.number("min"), fields.number("max")
    if least is not None and most is not None and least > most:
        raise fields.invalid("min", "is larger than `max`, which nothing fits")
    return Predicate(
        field=fields.text("field"),
        pattern=_pattern(fields) if "pattern" in fields else None,
        one_of=frozenset(fields.choices("one_of")) if "one_of" in fields else None,
        min=least,
        max=most,
        max_length=fields.whole("max_length", 0) if "max_length" in fields else None,
        required=required,
    )


def _pattern(fields: Fields) -> Search:
    try:
        return Search(fields.text("pattern"))
    except BadPattern as error:
        raise fields.invalid("pattern", str(error)) from None


CONDITIONS: Final[Mapping[str, Reader]] = {
    "action": lambda fields, key: action_is(fields.text(key)),
    "tool_id": lambda fields, key: tool_matches([Glob.of(fields.text(key))]),
    "tool_ids": lambda fields, key: tool_matches([Glob.of(glob) for glob in fields.texts(key)]),
    "agent_id": lambda fields, key: agent_among([fields.text(key)]),
    "agent_ids": lambda fields, key: agent_among(fields.texts(key)),
    "labels": lambda fields, key: labels_are(fields.pairs(key)),
    "arguments": _arguments,
    "min_step_count": lambda fields, key: steps_at_least(fields.whole(key, 0)),
    "min_duration_ms": lambda fields, key: age_at_least(fields.whole(key, 1)),
    "schedule": _schedule,
}
