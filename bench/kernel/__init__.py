"""What the commands of the kernel door cost."""

from typing import Final

CREATORS: Final = (1, 8, 32)  # clients at once
CROWDED: Final = {1: "", 32: "_on_32_agents"}  # the agents that they use, and the ending of those figures' names
