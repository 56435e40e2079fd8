"""A stub facilitator with its own chain: it checks signatures, spends each nonce once, and fails on demand."""
