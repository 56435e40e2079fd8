"""Hosted agents: executors that run without a stream."""
