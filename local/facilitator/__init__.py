"""A stub facilitator with a chain of its own: it checks signatures, spends nonces once, and fails as it is told to."""
