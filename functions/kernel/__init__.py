"""Functions of the kernel door."""
