"""Functions of the template in real processes, and their requests to AWS."""
