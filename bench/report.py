"""Ratios between contenders, their upper bounds, and the printed table."""

from collections.abc import Mapping
from typing import Final

# ratio: (ours, the other's, at most)
RATIOS: Final[Mapping[str, tuple[str, str, float]]] = {
    "execute_cold_vs_boto3": ("cold_execute_ms", "cold_boto3_ms", 1.4),
    "execute_cold_vs_idiomatic": ("cold_execute_ms", "cold_idiomatic_ms", 0.72),
    "capabilities_cold_vs_bare": ("cold_capabilities_ms", "cold_bare_ms", 2.2),
    "verify_cold_vs_idiomatic": ("cold_verify_ms", "cold_idiomatic_ms", 0.42),
    "hire_cold_vs_boto3": ("cold_hire_ms", "cold_boto3_ms", 1.4),
    "hire_cold_vs_idiomatic": ("cold_hire_ms", "cold_idiomatic_ms", 0.72),
    "paid_worker_vs_x402_sdk": ("paid_worker_ms", "paid_x402_sdk_ms", 2.5),
    "gateway_few_vs_crowd": ("gateway_few_per_second", "gateway_crowd_per_second", 1.0),
    "execute_warm_vs_powertools": ("warm_execute_piecework_us", "warm_execute_powertools_us", 0.7),
    "verify_warm_vs_powertools": ("warm_verify_piecework_us", "warm_verify_powertools_us", 1.0),
    "execute_warm_vs_fastapi": ("warm_execute_piecework_us", "warm_execute_fastapi_us", 0.7),
    "verify_warm_vs_fastapi": ("warm_verify_piecework_us", "warm_verify_fastapi_us", 1.0),
}
AT_MOST: Final[Mapping[str, float]] = {
    **{name: limit for name, (_, _, limit) in RATIOS.items()},
    "execute_fresh_dynamodb_calls": 2,
    "execute_replay_dynamodb_calls": 1,
    "execute_replay_s3_calls": 0,
    "verify_aws_calls": 0,
    "paid_task_dynamodb_calls": 8,
    "paid_task_s3_other_calls": 0,
    "paid_task_facilitator_calls": 2,
    "kernel_long_log_vs_short": 1.2,
    "kernel_command_own_ms": 2.5,
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
}


def with_ratios(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures and their ratios."""
    made = {
        name: round(figures[ours] / figures[other], 3)
        for name, (ours, other, _) in RATIOS.items()
        if ours in figures and other in figures
    }
    return {**made, **figures}


def table(figures: Mapping[str, float]) -> str:
    """One line per figure: its name, its value, and its upper bound."""
    width = max(map(len, figures))
    return "\n".join(_line(name, value, width) for name, value in figures.items())


def _line(name: str, value: float, width: int) -> str:
    limit = AT_MOST.get(name)
    if limit is None:
        return f"{name:<{width}}  {value:>10}"
    return f"{name:<{width}}  {value:>10}  at most {limit:<5} {'ok' if value <= limit else 'OVER'}"
