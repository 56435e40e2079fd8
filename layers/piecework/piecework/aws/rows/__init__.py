"""Rows that more than one door reads."""
