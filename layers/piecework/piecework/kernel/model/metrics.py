"""The numbers behind /metrics (specification section 7): what they are called, and how they are shown."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from piecework.kernel.model.changes import Change
from piecework.kernel.model.state import Status

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ACTIVE: Final = "active"

# A row's name is its metric and label values, parted by a character that no text of ours holds.
PARTED: Final = "\x1f"

FAMILIES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "executions": ("rebuno_executions_total", "Executions by what happened to them.", ("status",)),
    "intents": ("rebuno_intents_total", "Intents by type and decision.", ("type", "decision")),
    "steps": ("rebuno_step_duration_seconds", "From creation to success of a step.", ("tool_id",)),
    "policy": ("rebuno_policy_eval_seconds", "Time the policy took to decide.", ("action",)),
}


def executions(status: str) -> str:
    """The row that counts executions created, completed, failed or cancelled."""
    return _name("executions", status)


def intents(intent_type: str, decision: str) -> str:
    """The row that counts intents."""
    return _name("intents", intent_type, decision)


def policy_time(seconds: float) -> dict[str, float]:
    """What one evaluation adds."""
    return _observed("policy", "tool.invoke", seconds)


def counts_of(change: Change) -> dict[str, float]:
    """What one change adds to the rows."""
    counts: defaultdict[str, float] = defaultdict(float, change.counts)
    for tool_id, seconds in change.durations:
        for row, amount in _observed("steps", tool_id, seconds).items():
            counts[row] += amount
    before = change.before is not None and not change.before.status.is_terminal
    active = (not change.after.status.is_terminal) - before
    if active:
        counts[ACTIVE] += active
    if change.before is None:
        counts[executions("created")] += 1
    elif before and change.after.status.is_terminal:
        counts[executions(Status(change.after.status).value)] += 1
    return dict(counts)


def render(rows: Mapping[str, float]) -> str:
    """The Prometheus text format 0.0.4."""
    lines = [
        *_family("executions", "counter"),
        *_counters("executions", rows),
        *_family("intents", "counter"),
        *_counters("intents", rows),
        *_family("steps", "histogram"),
        *_histograms("steps", rows),
        *_family("policy", "histogram"),
        *_histograms("policy", rows),
        "# HELP rebuno_active_executions Executions that have not ended.",
        "# TYPE rebuno_active_executions gauge",
        f"rebuno_active_executions {_number(rows.get(ACTIVE, 0))}",
    ]
    return "\n".join(lines) + "\n"


def _name(*parts: str) -> str:
    return PARTED.join(part.replace(PARTED, " ") for part in parts)


def _observed(family: str, label: str, seconds: float) -> dict[str, float]:
    """One row for the first bucket that holds the value; `render` adds them up."""
    bucket = next((str(bound) for bound in BUCKETS if seconds <= bound), "+Inf")
    return {_name(family, label, bucket): 1, _name(family, label, "sum"): seconds}


def _family(family: str, kind: str) -> list[str]:
    metric, text, _ = FAMILIES[family]
    return [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]


def _labels(names: Iterable[str], values: Iterable[str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of(family: str, rows: Mapping[str, float]) -> list[tuple[list[str], float]]:
    named = ((row.split(PARTED), amount) for row, amount in sorted(rows.items()))
    return [(parts[1:], amount) for parts, amount in named if parts[0] == family]


def _counters(family: str, rows: Mapping[str, float]) -> list[str]:
    metric, _, names = FAMILIES[family]
    return [f"{metric}{{{_labels(names, values)}}} {_number(amount)}" for values, amount in _of(family, rows)]


def _histograms(family: str, rows: Mapping[str, float]) -> list[str]:
    metric, _, names = FAMILIES[family]
    series: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (label, part), amount in _of(family, rows):
        series[label][part] = amount
    lines = []
    for label, parts in series.items():
        labels, total = _labels(names, [label]), 0.0
        for bound in [*map(str, BUCKETS), "+Inf"]:
            total += parts.get(bound, 0)
            lines.append(f'{metric}_bucket{{{labels},le="{bound.removesuffix(".0")}"}} {_number(total)}')
        lines.append(f"{metric}_sum{{{labels}}} {_number(parts.get('sum', 0))}")
        lines.append(f"{metric}_count{{{labels}}} {_number(total)}")
    return lines


def _number(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else repr(amount)
