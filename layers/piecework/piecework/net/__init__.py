"""Requests to others: one HTTP client, and which addresses it may reach."""
