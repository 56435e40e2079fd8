"""Benchmarks: cold starts, warm cost, AWS calls and the local gateway's rate, beside the usual alternatives."""

import local  # noqa: F401  # puts layers, functions and the command on the path
