"""Ratios between contenders, the goals, and the printed table."""

from collections.abc import Mapping, Sequence
from typing import Final

from bench.contenders import OWN

# ratio: (ours, the other's, at most)
RATIOS: Final[Mapping[str, tuple[str, str, float]]] = {
    "execute_cold_vs_boto3": ("cold_execute_ms", "cold_boto3_ms", 0.55),
    "execute_cold_vs_idiomatic": ("cold_execute_ms", "cold_idiomatic_ms", 0.28),
    "capabilities_cold_vs_bare": ("cold_capabilities_ms", "cold_bare_ms", 1.3),
    "verify_cold_vs_idiomatic": ("cold_verify_ms", "cold_idiomatic_ms", 0.28),
    "hire_cold_vs_boto3": ("cold_hire_ms", "cold_boto3_ms", 0.7),
    "hire_cold_vs_idiomatic": ("cold_hire_ms", "cold_idiomatic_ms", 0.72),
    "kernel_cold_vs_fastapi": ("cold_kernel_ms", "cold_kernel_fastapi_ms", 0.55),
    # with the first answer: one side may read its secret in it, the other before it
    "authorizer_cold_vs_boto3": ("answered_authorizer_ms", "answered_authorizer_boto3_ms", 0.45),
    "paid_worker_vs_x402_sdk": ("paid_worker_ms", "paid_x402_sdk_ms", 2.5),
    "gateway_few_vs_crowd": ("gateway_few_per_second", "gateway_crowd_per_second", 1.0),
    "execute_warm_vs_powertools": ("warm_execute_piecework_us", "warm_execute_powertools_us", 0.45),
    "verify_warm_vs_powertools": ("warm_verify_piecework_us", "warm_verify_powertools_us", 0.45),
    "execute_warm_vs_fastapi": ("warm_execute_piecework_us", "warm_execute_fastapi_us", 0.55),
    "verify_warm_vs_fastapi": ("warm_verify_piecework_us", "warm_verify_fastapi_us", 1.0),
}
BESIDE: Final = {  # the same function of another tree
    f"{one.name}_{what}_vs_beside": (f"{what}_{one.name}_ms", f"{what}_{one.name}_beside_ms")
    for one in OWN
    for what in ("cold", "answered", "cpu")
}
PAIRS: Final = {**{name: (ours, other) for name, (ours, other, _) in RATIOS.items()}, **BESIDE}
AT_MOST: Final[Mapping[str, float]] = {
    **{name: limit for name, (_, _, limit) in RATIOS.items()},
    "first_execute_ms": 60,
    "execute_fresh_dynamodb_calls": 2,
    "execute_replay_dynamodb_calls": 1,
    "execute_replay_s3_calls": 0,
    "verify_aws_calls": 0,
    "paid_task_dynamodb_calls": 5,
    "paid_task_s3_other_calls": 0,
    "paid_task_facilitator_calls": 2,
    "kernel_command_own_ms": 2.5,
    "kernel_long_log_vs_short": 1.2,
    "kernel_invoke_requests": 2,
    "kernel_result_requests": 2,
    "kernel_create_requests_of_1": 8,
    "kernel_create_requests_of_8": 8,
    "kernel_create_requests_of_32": 8,
    "kernel_life_requests_of_1": 12,
    "kernel_life_requests_of_8": 12,
    "kernel_life_requests_of_32": 12,
    "create_complete_requests_c1": 12,
    "create_complete_requests_c8": 12,
    "create_complete_requests_c32": 12,
    "assign_p50_ms": 60,
    "assign_p99_ms": 250,
    "assign_active_p50_ms": 30,
    "monitor_p50_ms": 100,
    "monitor_idle_p50_ms": 300,
    "gateway_own_ms": 1.5,
    "layer_zip_mb": 16,
}


def table(figures: Mapping[str, float], spreads: Mapping[str, Sequence[float]]) -> str:
    """One line per figure: its name, its median, how far its rounds lie apart, and its upper bound."""
    width = max(map(len, figures))
    return "\n".join(_line(name, value, spreads.get(name), width) for name, value in figures.items())


def _line(name: str, value: float, spread: Sequence[float] | None, width: int) -> str:
    between = f"{spread[0]:g} to {spread[1]:g}" if spread else ""
    line = f"{name:<{width}}  {value:>10}  {between:<18}"
    limit = AT_MOST.get(name)
    if limit is None:
        return line.rstrip()
    return f"{line}  at most {limit:<5} {'ok' if value <= limit else 'OVER'}"
