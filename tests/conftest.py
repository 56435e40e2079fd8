"""Fixtures every test may use: the embedded AWS and gateways of real processes."""

from tests.support.machine import embedded_aws, gateway, gateways, two_gateways

__all__ = ["embedded_aws", "gateway", "gateways", "two_gateways"]
