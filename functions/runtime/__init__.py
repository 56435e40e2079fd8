"""Functions of the runtime door."""
