"""What the commands of the kernel door cost."""
