"""Streams of a task and their readers."""
