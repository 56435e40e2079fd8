"""Fixtures every test may use, the embedded AWS and gateways of real processes; and the run's check of AWS calls."""

from tests.support.aws_calls import pytest_configure, pytest_sessionfinish
from tests.support.machine import embedded_aws, gateway, gateways, two_gateways

__all__ = ["embedded_aws", "gateway", "gateways", "pytest_configure", "pytest_sessionfinish", "two_gateways"]
