"""Webhooks: what both doors need to tell somebody's server, signed, until it has it."""
