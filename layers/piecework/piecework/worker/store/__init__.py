"""Adapters of the worker door's ports: one module per table or bucket."""
