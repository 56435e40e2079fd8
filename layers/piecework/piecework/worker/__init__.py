"""The worker door: hired over HIRE, paid through x402."""
