"""Requests to other parties: one HTTP client, and the addresses that it may reach."""
