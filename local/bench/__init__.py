"""Benchmarks: cold starts, warm cost, AWS calls and the local gateway's rate, beside what one would write instead."""
