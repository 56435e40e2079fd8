"""How long a property is tried: a fixed set of examples in every run, many random ones when asked for."""

from typing import Any

from hypothesis import HealthCheck, settings

FIXED = 500
MANY = 10_000


def settled(examples: int) -> Any:
    """Settings for that many examples; the usual number is the same examples each time."""
    return settings(
        max_examples=examples,
        derandomize=examples == FIXED,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
