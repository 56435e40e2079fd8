"""Functions of the worker door."""
