"""Who connects to the kernel door: agents and runners at its streams."""

import httpx
import pytest

from tests.support.machine import HTTP_SECONDS
from tests.support.served.kernel import ServedDesk

RULED = ("pay.", "rm.")  # tools that the policy knows by name


class Clients(ServedDesk):
    """Agents, runners and tools under names of the test's own, but for those of the policy."""

    def named(self, name: str) -> str:
        return name if name.startswith(RULED) else super().named(name)


@pytest.fixture
def desk(kernel):
    with httpx.Client(base_url=kernel.url, timeout=HTTP_SECONDS, trust_env=False) as http:
        made = Clients(http)
        yield made
        made.close()
