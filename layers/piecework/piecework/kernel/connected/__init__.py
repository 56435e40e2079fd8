"""Who is connected to the kernel door: lists for operators."""
