"""Code that runs only on your machine: a local Lambda and API Gateway, the embedded AWS, replays, benchmarks."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
for _folder in (
    _ROOT / "functions",
    _ROOT / "layers",
    _ROOT / "layers" / "piecework",
):  # as /opt and /var/task on Lambda
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
