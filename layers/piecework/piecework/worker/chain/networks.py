"""Chains, their USDC and its EIP-712 domain; prices as whole token units (worker specification 2.2).

The two domain names differ: a signature under the other one looks fine and never verifies on chain.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from piecework.values import dataclass

USDC_DECIMALS: Final = 6
SMALLEST_USUAL_ATOMIC: Final = 1_000  # 0.001 USDC; the CDP facilitator refuses smaller payments as invalid
PRICE: Final = re.compile(r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Network:
    """One chain as HIRE names it (`name`), as x402 names it (`caip2`), and the USDC on it."""

    name: str
    caip2: str
    chain_id: int
    usdc: str
    eip712_name: str
    eip712_version: str
    is_testnet: bool = False


BASE: Final = Network("base", "eip155:8453", 8453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2")
BASE_SEPOLIA: Final = Network(
    "base-sepolia", "eip155:84532", 84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2", is_testnet=True
)
NETWORKS: Final[Mapping[str, Network]] = {network.name: network for network in (BASE, BASE_SEPOLIA)}
BY_CAIP2: Final[Mapping[str, Network]] = {network.caip2: network for network in NETWORKS.values()}


def atomic_units(amount: str) -> int:
    """A price's decimal string as whole units of the token, exactly.

    Raises:
        ValueError: not a plain positive decimal of at most 12 digits before and 6 after the point.
    """
    if not PRICE.fullmatch(amount):
        raise ValueError("the amount must be a plain decimal with at most 6 digits after the point")
    atomic = int(Decimal(amount).scaleb(USDC_DECIMALS))
    if atomic == 0:
        raise ValueError("the amount must be more than 0")
    return atomic
