"""Contracts: what they say, who signed them, and how they are registered."""
