"""Adapters of the kernel door's ports over the kernel table and the bucket."""
