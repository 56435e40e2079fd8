"""Numbers from the system's source: environments that start from one snapshot must not draw the same ones.

The generator of the `random` module is part of the snapshot. Pauses drawn from it would bring all environments back at
the same moment.
"""

from random import SystemRandom
from typing import Final

_system: Final = SystemRandom()
choice: Final = _system.choice
random: Final = _system.random
uniform: Final = _system.uniform
