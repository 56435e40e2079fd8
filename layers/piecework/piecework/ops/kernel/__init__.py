"""The kernel door's executions, approvals, agents and policy, as operators read and answer them."""
