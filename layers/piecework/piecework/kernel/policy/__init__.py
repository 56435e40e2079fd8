"""The policy that is asked before each tool call (specification section 5)."""
