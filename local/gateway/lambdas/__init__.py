"""Functions of the template in real processes, and what they send to AWS."""
