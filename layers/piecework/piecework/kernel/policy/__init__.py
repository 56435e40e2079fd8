"""The policy that is asked before each tool call (specification section 5)."""

from piecework.kernel.policy.reading import PolicyInvalid
from piecework.kernel.policy.rules import PERMISSIVE, SECURE, Policy
from piecework.kernel.policy.verdicts import Call, Decision, RateLimit, Verdict
from piecework.kernel.policy.windows import RateWindows

__all__ = ["PERMISSIVE", "SECURE", "Call", "Decision", "Policy", "PolicyInvalid", "RateLimit", "RateWindows", "Verdict"]
