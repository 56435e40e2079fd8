"""Deciding commands, in pure code."""
