"""What the kernel door asks of its store; every method is bounded, and reads are strongly consistent unless it says so.

The adapters lie in `kernel/store`, the in-memory twins in the tests' support; both pass the same contract tests.
"""
