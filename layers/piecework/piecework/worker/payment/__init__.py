"""Payments: terms, headers, the facilitator, settlement and what is owed."""
