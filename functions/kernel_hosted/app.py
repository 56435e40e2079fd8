"""The hosted queue: each message wakes one execution of a hosted agent."""

from typing import Any

from piecework.errors import PieceworkError
from piecework.hire.door import LambdaContext
from piecework.jsons import loads
from piecework.kernel_hosted_wiring import kernel_hosted_wiring

wiring = kernel_hosted_wiring()
