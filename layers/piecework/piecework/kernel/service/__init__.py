"""The kernel door's operations, and what each commit sets off."""
