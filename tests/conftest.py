"""Fixtures every test may use, the embedded AWS and gateways of real processes; and the run's check of AWS calls."""

from tests.support.aws_calls import pytest_configure, pytest_sessionfinish
from tests.support.machine import embedded_aws, gateway, gateways, own_gateway, two_gateways

__all__ = [
    "embedded_aws",
    "gateway",
    "gateways",
    "own_gateway",
    "pytest_configure",
    "pytest_sessionfinish",
    "two_gateways",
]
