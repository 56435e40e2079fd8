"""Chains and their nodes."""
