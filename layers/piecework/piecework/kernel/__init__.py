"""The kernel door: durable executions, their event log, agents, runners, policy and approvals."""
